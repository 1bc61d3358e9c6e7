#!/usr/bin/env bash
# QuickFIX/J 2.3.2 with its FIX 4.4 messages (Maven Central): a snapshot of an empty book (35=W with 268=0), parsed, looked at and written again.
#
# Guess: reading a message does not change it: 268=0 is written again as it came, whatever the program has asked in between, or at least if it has asked
# nothing.
# Seen: written at once it has its 268=0. Asked for the count (`getGroupCount`, `getGroups`) or checked by the dictionary (`validate`) it is written without,
# and with another length and checksum; `isSetField(268)` and `getInt(268)` say 0 as before, and `toRawString` has the text as it came. `hasGroup` changes
# nothing. A clone of a checked message has no 268 either, nor has a message of which `removeGroup` took the last entry. The written message is refused by the
# next dictionary ("Required tag missing", 268). Where a program sets the count as a plain field it is written.
# Consequence: a relay between two FIX sessions sends on `toRawString` or sets 268=0 itself behind all that reads; a receiver takes a snapshot without 268
# for an empty book, or the last prices stay on its screens.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.quickfixj</groupId><artifactId>quickfixj-core</artifactId><version>2.3.2</version></dependency>
    <dependency><groupId>org.quickfixj</groupId><artifactId>quickfixj-messages-fix44</artifactId><version>2.3.2</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
cat > Empty.java <<'JAVA'
import quickfix.DataDictionary;
import quickfix.FieldException;
import quickfix.IntField;
import quickfix.Message;

public class Empty {
    interface Look {
        Object at(Message message) throws Exception;
    }

    static final int ENTRIES = 268;
    static final String HEAD = "35=W|34=1|49=A|52=20240102-14:30:00|56=B|55=IBM|";
    static final String EMPTY = whole(HEAD + "268=0|");
    static final String LOST = whole(HEAD);
    static DataDictionary dictionary;
    static int wrong;

    public static void main(String[] arguments) throws Exception {
        dictionary = new DataDictionary("FIX44.xml");
        look("nothing asked", false, message -> "");
        look("isSetField", false, message -> message.isSetField(ENTRIES));
        look("getInt", false, message -> message.getInt(ENTRIES));
        look("hasGroup", false, message -> message.hasGroup(ENTRIES));
        look("getGroupCount", true, message -> message.getGroupCount(ENTRIES));
        look("getGroups", true, message -> message.getGroups(ENTRIES));
        look("validate", true, message -> {
            dictionary.validate(message);
            return "valid";
        });

        Message validated = parsed(EMPTY);
        dictionary.validate(validated);
        expect("after validate, isSetField and getInt", "true 0", validated.isSetField(ENTRIES) + " " + validated.getInt(ENTRIES));
        expect("after validate, raw", EMPTY, validated.toRawString().replace('\001', '|'));
        expect("a clone of it", LOST, written((Message) validated.clone()));
        try {
            dictionary.validate(parsed(written(validated)));
            expect("the next one", "refused", "taken");
        } catch (FieldException error) {
            expect("the next one", "Required tag missing, field=268", error.getMessage().trim());
        }

        Message emptied = parsed(whole(HEAD + "268=1|269=0|270=100.10|271=500|"));
        emptied.removeGroup(1, ENTRIES);
        expect("the only entry removed", LOST, written(emptied));
        Message built = parsed(LOST);
        built.setField(new IntField(ENTRIES, 0));
        expect("the count set", EMPTY, written(built));
        if (wrong > 0) {
            throw new IllegalStateException(wrong + " are otherwise now");
        }
        System.out.println("as it was");
    }

    /** Parses the snapshot, looks at it in a way, and compares what is written then. */
    static void look(String name, boolean isLost, Look look) throws Exception {
        Message message = parsed(EMPTY);
        Object seen = look.at(message);
        expect(name + " " + seen, isLost ? LOST : EMPTY, written(message));
    }

    static Message parsed(String text) throws Exception {
        return new Message(text.replace('|', '\001'), dictionary, true);
    }

    static String written(Message message) {
        return message.toString().replace('\001', '|');
    }

    /** A message with its length and its checksum, as the specification has them. */
    static String whole(String body) {
        String text = "8=FIX.4.4|9=" + body.length() + "|" + body;
        return text + String.format("10=%03d|", text.replace('|', '\001').chars().sum() % 256);
    }

    static void expect(String name, String then, String seen) {
        wrong += seen.equals(then) ? 0 : 1;
        System.out.println(name + ": " + seen + (seen.equals(then) ? "" : " (it was " + then + ")"));
    }
}
JAVA
javac -nowarn -cp "$(cat classpath)" Empty.java
java -cp ".:$(cat classpath)" Empty 2> log || { cat log; exit 1; }
