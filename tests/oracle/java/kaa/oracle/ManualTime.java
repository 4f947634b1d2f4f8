package kaa.oracle;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/** A clock that moves only when it is set. */
public final class ManualTime implements Time {
    private volatile long nowMs;

    public ManualTime(long nowMs) {
        this.nowMs = nowMs;
    }

    public void set(long nowMs) {
        this.nowMs = nowMs;
    }

    @Override
    public long milliseconds() {
        return nowMs;
    }

    @Override
    public long nanoseconds() {
        return nowMs * 1_000_000;
    }

    @Override
    public void sleep(long ms) {
        throw new UnsupportedOperationException("this clock does not move by itself");
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException("this clock does not move by itself");
    }
}
