package kaa.oracle;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.util.Scheduler;

/** Does at once what is to be done once, and never what is to be done again and again. */
final class PromptScheduler implements Scheduler {
    @Override
    public void startup() {
    }

    @Override
    public void shutdown() {
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        if (periodMs < 0) {
            task.run();
        }
        return new Settled();
    }

    @Override
    public void resizeThreadPool(int size) {
    }

    /** Stands for a task about which nothing is left to decide. */
    private static final class Settled extends CompletableFuture<Void>
            implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(0, other.getDelay(TimeUnit.NANOSECONDS));
        }
    }
}
