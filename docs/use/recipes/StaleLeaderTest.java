// JUnit 5: the service survives a stale leader. `termgate` is in the PATH; TEST_DATABASE is a database for tests whose tables are
// protected (`termgate protect`), SERVICE_COMMAND starts the service.
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class StaleLeaderTest {
    @Test
    @Timeout(180)
    void aStaleLeaderIsRefused() throws Exception {
        List<String> words = new ArrayList<>(List.of("termgate", "drill", "--db", System.getenv("TEST_DATABASE"), "--scope", "orders", "--timeout", "20s", "--"));
        words.addAll(List.of(System.getenv("SERVICE_COMMAND").split(" ")));
        Process drill = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(drill.getInputStream().readAllBytes());
        assertEquals(0, drill.waitFor(), said);  // 1: the drill failed, and says why; 2: wrong usage
    }
}
