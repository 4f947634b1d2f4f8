package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Ends this JVM once nobody has been connected for a while, so that no run of the tests, however
 * it dies, leaves a process behind. The JVM takes its folder with it, and the folder of the run
 * when it was the last one there.
 */
final class Lifetime {
    private static final long CHECK_MS = 200;

    private final Path folder;
    private final long idleMs;
    private int clients;
    private long emptySince;

    Lifetime(Path folder, long idleMs) {
        this.folder = folder;
        this.idleMs = idleMs;
    }

    /** From now on clients are let in. On a busy machine it can take long to get that far. */
    void begin() {
        emptySince = System.nanoTime();
        Thread watch = new Thread(this::watch, "lifetime");
        watch.setDaemon(true);
        watch.start();
    }

    synchronized void enter() {
        clients++;
    }

    synchronized void leave() {
        clients--;
        emptySince = System.nanoTime();
    }

    private synchronized boolean over() {
        return clients == 0 && (System.nanoTime() - emptySince) / 1_000_000 > idleMs;
    }

    private void watch() {
        try {
            while (!over()) {
                Thread.sleep(CHECK_MS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        end();
    }

    /** Does not return. Halting skips shutdown hooks: nothing here is worth a slow goodbye. */
    JsonNode end() {
        try {
            removeOwnFiles();
        } catch (IOException left) {
            System.err.println("left files behind: " + left);
        }
        Runtime.getRuntime().halt(0);
        return null;
    }

    private void removeOwnFiles() throws IOException {
        Path run = folder.getParent();
        removeTree(folder);
        boolean last;
        try (Stream<Path> others = Files.list(run)) {
            last = others.findAny().isEmpty();
        }
        if (last) {
            Files.delete(run);
        }
    }

    private static void removeTree(Path root) throws IOException {
        List<Path> deepestFirst;
        try (Stream<Path> all = Files.walk(root)) {
            deepestFirst = all.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : deepestFirst) {
            Files.deleteIfExists(path);
        }
    }
}
