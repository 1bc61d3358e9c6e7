package quoteway.interop.peer;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.DataDictionary;
import java.nio.file.Files;
import java.nio.file.Path;

/** The full dictionaries: test input that lives beside the project, in the folder that {@code QUOTEWAY_DICTIONARY} names. */
public final class Dictionaries {
    private static DataDictionary loaded;

    private Dictionaries() {}

    public static Path folder() {
        String folder = System.getenv("QUOTEWAY_DICTIONARY");
        Path path = folder != null ? Path.of(folder) : Path.of(System.getProperty("interop.basedir", ".")).resolve("../../shared/dictionary");
        if (!Files.exists(path.resolve("RDMFieldDictionary"))) {
            throw new AssertionError("no RDMFieldDictionary in " + path.normalize() + "; set QUOTEWAY_DICTIONARY to its folder");
        }
        return path.normalize().toAbsolutePath();
    }

    /** Both files as EMA loads them. Not to be changed. */
    public static synchronized DataDictionary full() {
        if (loaded == null) {
            DataDictionary dictionary = EmaFactory.createDataDictionary();
            dictionary.loadFieldDictionary(folder().resolve("RDMFieldDictionary").toString());
            dictionary.loadEnumTypeDictionary(folder().resolve("enumtype.def").toString());
            loaded = dictionary;
        }
        return loaded;
    }
}
