#!/usr/bin/env bash
# ETA Java 3.9.1, and with it EMA Java (XmlTraceToFile): the trace of a message, given to a reader of XML.
#
# Guess: the trace, whose files end with .xml and whose messages look like elements, is XML apart from having many roots.
# Seen: no image and no status can be read. The state stands between the attributes without a name (`State: Open/Ok/None - text: "..."`), and so does a
# quality of service (`Qos: Realtime/TickByTick/Static - ...`); within values quotes are escaped, but a map's key that is a state has bare quotes in quotes.
# In the files of EMA the moment before each message is a java.util.Date: whole seconds.
# What follows: traces are read by a reader of one's own, and times of a trace order nothing within a second.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>com.refinitiv.eta</groupId><artifactId>eta</artifactId><version>3.9.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -f "$folder/pom.xml" dependency:build-classpath -Dmdep.outputFile="$folder/classpath"
cat > "$folder/Trace.java" <<'JAVA'
import com.refinitiv.eta.codec.*;
import java.nio.ByteBuffer;

public class Trace {
    public static void main(String[] arguments) {
        Msg message = CodecFactory.createMsg();
        for (boolean isImage : new boolean[] {true, false}) {
            message.clear();
            message.msgClass(isImage ? MsgClasses.REFRESH : MsgClasses.UPDATE);
            message.domainType(6);
            message.streamId(5);
            message.containerType(DataTypes.NO_DATA);
            if (isImage) {
                RefreshMsg image = (RefreshMsg) message;
                image.state().streamState(StreamStates.OPEN);
                image.state().dataState(DataStates.OK);
                image.groupId().data(ByteBuffer.wrap(new byte[] {0, 0}));
            }
            Buffer buffer = CodecFactory.createBuffer();
            buffer.data(ByteBuffer.allocate(1000));
            EncodeIterator encoder = CodecFactory.createEncodeIterator();
            encoder.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
            message.encode(encoder);
            DecodeIterator decoder = CodecFactory.createDecodeIterator();
            decoder.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
            System.out.println(CodecFactory.createMsg().decodeToXml(decoder).trim());
            System.out.println("====");
        }
    }
}
JAVA
java -cp "$(cat "$folder/classpath")" "$folder/Trace.java" > "$folder/trace" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
python3 - "$folder/trace" <<'PYTHON'
import sys
import xml.etree.ElementTree as tree

with open(sys.argv[1], encoding="utf-8") as file:
    image, update = file.read().split("====")[:2]
print(image.strip())
assert tree.fromstring(update.strip()).tag == "UPDATE"
assert ' State: Open/Ok/None - text: "' in image, image
try:
    tree.fromstring(image.strip())
    raise SystemExit("an image is XML now")
except tree.ParseError as error:
    print("an update is XML; an image is not:", error)
print("as it was")
PYTHON
