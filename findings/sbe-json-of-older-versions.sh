#!/usr/bin/env bash
# Messages of an older version of a schema, as feeds with SBE have them after each extension, in sbe-all 1.38.1 (Maven Central): the generated decoder beside
# JsonPrinter, which reads with the schema alone.
#
# Guess: a field that a message's version does not have is absent for both: its null value, or nothing. JsonPrinter writes null values as their numbers.
# Seen: the generated decoder gives null values and empty texts. JsonPrinter does so for optional numbers and enumerations only; for required numbers, texts and
# sets it reads on behind the block of the message, which is the next message of the packet: an old message of seq 42 has `"count": 43`, which is the
# seq of the message behind it, and flags out of its price. Nothing marks them. Also: not a number is written as "0/0", and an enumeration's unknown value as
# "null", like its null value, where the generated decoder throws.
# What follows: whoever prints or converts recordings by such a printer compares the header's version with each field's sinceVersion first; whoever extends
# a schema adds numbers as optional ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>uk.co.real-logic</groupId><artifactId>sbe-all</artifactId><version>1.38.1</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath > maven.log || { cat maven.log; exit 1; }
cat > schema.xml <<'SCHEMA'
<?xml version="1.0" encoding="UTF-8"?>
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="tick" id="1" version="2" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/><type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/>
    </composite>
    <type name="Price" primitiveType="int64" presence="optional"/>
    <type name="Ratio" primitiveType="double" presence="optional"/>
    <type name="Symbol" primitiveType="char" length="4"/>
    <set name="Flags" encodingType="uint8"><choice name="last">0</choice><choice name="implied">1</choice></set>
    <enum name="Side" encodingType="uint8"><validValue name="Buy">1</validValue><validValue name="Sell">2</validValue></enum>
  </types>
  <sbe:message name="Tick" id="1">
    <field name="seq" id="1" type="uint32"/>
    <field name="price" id="2" type="Price" sinceVersion="2"/>
    <field name="count" id="3" type="uint32" sinceVersion="2"/>
    <field name="symbol" id="4" type="Symbol" sinceVersion="2"/>
    <field name="flags" id="5" type="Flags" sinceVersion="2"/>
    <field name="side" id="6" type="Side" sinceVersion="2"/>
    <field name="ratio" id="7" type="Ratio" sinceVersion="2"/>
  </sbe:message>
</sbe:messageSchema>
SCHEMA
java_with_buffers() { java --add-opens java.base/jdk.internal.misc=ALL-UNNAMED "$@"; }
java_with_buffers -Dsbe.generate.ir=true -Dsbe.output.dir=made -Dsbe.target.language=Java -jar "$(cat classpath)" schema.xml
cat > Old.java <<'JAVA'
import java.nio.ByteBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import tick.*;
import uk.co.real_logic.sbe.ir.*;
import uk.co.real_logic.sbe.json.JsonPrinter;

public class Old {
    static final int HEADER = 8;
    static final int SIDE = 21; // offset in the block

    public static void main(String[] arguments) {
        Ir schema;
        try (IrDecoder file = new IrDecoder("made/schema.sbeir")) {
            schema = file.decode();
        }
        UnsafeBuffer packet = new UnsafeBuffer(new byte[128]);
        // Version 1 had the sequence number alone: a block of four bytes. The next message, of version 2, is right behind it.
        new MessageHeaderEncoder().wrap(packet, 0).blockLength(4).templateId(1).schemaId(1).version(1);
        packet.putInt(HEADER, 42);
        int next = HEADER + 4;
        new TickEncoder().wrapAndApplyHeader(packet, next, new MessageHeaderEncoder())
            .seq(43).price(0x03_44434241L).count(7).symbol("ESZ6").side(Side.Buy).ratio(Double.NaN).flags().clear();

        TickDecoder old = new TickDecoder().wrapAndApplyHeader(packet, 0, new MessageHeaderDecoder());
        String decoder = "seq " + old.seq() + ", price " + (old.price() == TickDecoder.priceNullValue() ? "null" : "there") + ", count "
            + (old.count() == TickDecoder.countNullValue() ? "null" : "there") + ", symbol '" + old.symbol() + "', flags " + old.flags()
            + ", side " + old.side() + ", ratio " + old.ratio();
        System.out.println("decoder: " + decoder);
        expect(decoder, "seq 42, price null, count null, symbol '', flags null, side NULL_VAL, ratio NaN");

        String printed = print(schema, packet, 0);
        System.out.println("printer: " + printed);
        expect(printed, "{\"seq\":42,\"price\":-9223372036854775808,\"count\":43,\"symbol\":\"ABCD\",\"flags\":{\"last\":true,\"implied\":true},"
            + "\"side\":\"null\",\"ratio\":\"0/0\"}");

        packet.putByte(next + HEADER + SIDE, (byte) 9);
        String unknown = print(schema, packet, next);
        System.out.println("side 9:  " + unknown);
        expect(unknown, "{\"seq\":43,\"price\":14030160449,\"count\":7,\"symbol\":\"ESZ6\",\"flags\":{\"last\":false,\"implied\":false},"
            + "\"side\":\"null\",\"ratio\":\"0/0\"}");
        try {
            expect("" + new TickDecoder().wrapAndApplyHeader(packet, next, new MessageHeaderDecoder()).side(), "an exception");
        } catch (IllegalArgumentException error) {
            System.out.println("decoder: " + error.getMessage());
        }
        System.out.println("as it was");
    }

    static String print(Ir schema, UnsafeBuffer packet, int offset) {
        return new JsonPrinter(schema).print(ByteBuffer.wrap(packet.byteArray(), offset, packet.capacity() - offset).slice()).replaceAll("\\s", "");
    }

    static void expect(String seen, String then) {
        if (!seen.equals(then)) {
            throw new IllegalStateException("it was " + then + ", now " + seen);
        }
    }
}
JAVA
javac -nowarn -cp "$(cat classpath)" -d . Old.java made/tick/*.java
java_with_buffers -cp ".:$(cat classpath)" Old
