#!/usr/bin/env bash
# ETA Java's converter of RWF and JSON (etajConverter 3.9.1 with eta 3.9.1), given a message with one Real, to JSON and back.
#
# Guess: what the converter writes is JSON and is read by it again as the same value; values of RWF without a number in JSON (infinity, not a number) are
# texts.
# Seen: infinities and not-a-number are written as bare words, `"Data":Inf`: no JSON, so the whole message is lost, to the converter's own parser as well.
# Numbers are written with all digits and read through a double: 99999999999999.99 comes back as 99999999999999.98 and 12345678901234567.89 as
# 12345678901234568. The smallest steps of RWF, 0.00000000000001 and five of them, are written and then refused. A JSON `true` is read as the Real 0. Usual
# prices and volumes come back as they were, without their last noughts: 101.20 as 101.2.
# Consequence: a publisher blanks a field instead of sending infinities to users of JSON; turnovers of more than 15 digits go as texts; the number of
# decimals is not taken from JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>com.refinitiv.eta.json.converter</groupId><artifactId>etajConverter</artifactId><version>3.9.1.0</version></dependency>
    <dependency><groupId>com.refinitiv.eta</groupId><artifactId>eta</artifactId><version>3.9.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
# A dictionary of one field: the converter wants one, though the message has elements.
cat > fields <<'FIELDS'
!tag Type          1
!tag Version       4.20.9
!ACRONYM    DDE ACRONYM          FID  RIPPLES TO  FIELD TYPE     LENGTH  RWF TYPE   RWF LEN
BID        "BID"                  22  NULL        PRICE              17  REAL64           7
FIELDS
cat > Reals.java <<'JAVA'
import com.refinitiv.eta.codec.*;
import com.refinitiv.eta.json.converter.*;
import com.refinitiv.eta.transport.TransportFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

public class Reals {
    static final int MAJOR = Codec.majorVersion(), MINOR = Codec.minorVersion();
    static final String HEAD = "{\"ID\":5,\"Type\":\"Update\",\"Elements\":{\"R\":{\"Type\":\"Real\",\"Data\":";
    static final JsonConverterError error = ConverterFactory.createJsonConverterError();
    static JsonConverter converter;
    static int wrong;

    public static void main(String[] arguments) {
        DataDictionary dictionary = CodecFactory.createDataDictionary();
        check(dictionary.loadFieldDictionary("fields", TransportFactory.createError()));
        converter = ConverterFactory.createJsonConverterBuilder().setDictionary(dictionary).setServiceConverter(new ServiceNameIdConverter() {
            @Override public int serviceNameToId(String name, JsonConverterError problem) { return 1; }
            @Override public String serviceIdToName(int id, JsonConverterError problem) { return "SERVICE"; }
        }).build(error);

        both(real(10125, RealHints.EXPONENT_2), "101.25", "101.25");
        both(real(10120, RealHints.EXPONENT_2), "101.20", "101.2");
        both(real(100_000_000, RealHints.EXPONENT0), "100000000", "100000000");
        both(real(3239, RealHints.FRACTION_32), "101.21875", "101.21875");

        both(real(0, RealHints.INFINITY), "Inf", "not parsed");
        both(real(0, RealHints.NEG_INFINITY), "-Inf", "not parsed");
        both(real(0, RealHints.NOT_A_NUMBER), "NaN", "not parsed");
        both(real(9_999_999_999_999_999L, RealHints.EXPONENT_2), "99999999999999.99", "99999999999999.98");
        both(real(1_234_567_890_123_456_789L, RealHints.EXPONENT_2), "12345678901234567.89", "12345678901234568");
        both(real(1, RealHints.EXPONENT_14), "0.00000000000001", "refused");
        both(real(5, RealHints.EXPONENT_14), "0.00000000000005", "refused");
        expect("true read", "0", read(HEAD + "true}}}"));
        if (wrong > 0) throw new IllegalStateException(wrong + " are others now");
        System.out.println("as it was");
    }

    static void both(Real real, String thenWritten, String thenRead) {
        String json = written(real);
        String data = json.replaceFirst(".*\"Data\":", "").replaceFirst("}+$", "");
        expect("written", thenWritten, data);
        expect(data + " read again", thenRead, read(json));
    }

    static Real real(long mantissa, int hint) {
        Real real = CodecFactory.createReal();
        check(real.value(mantissa, hint));
        return real;
    }

    /** The JSON of an update whose only element is the Real. */
    static String written(Real real) {
        UpdateMsg update = (UpdateMsg) CodecFactory.createMsg();
        update.msgClass(MsgClasses.UPDATE);
        update.domainType(6);
        update.streamId(5);
        update.containerType(DataTypes.ELEMENT_LIST);
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.allocate(256));
        EncodeIterator encoder = CodecFactory.createEncodeIterator();
        encoder.setBufferAndRWFVersion(buffer, MAJOR, MINOR);
        check(update.encodeInit(encoder, 0));
        ElementList elements = CodecFactory.createElementList();
        elements.applyHasStandardData();
        check(elements.encodeInit(encoder, null, 0));
        ElementEntry entry = CodecFactory.createElementEntry();
        entry.dataType(DataTypes.REAL);
        entry.name().data("R");
        check(entry.encode(encoder, real));
        check(elements.encodeComplete(encoder, true));
        check(update.encodeComplete(encoder, true));

        Buffer sent = CodecFactory.createBuffer();
        sent.data(buffer.data(), 0, buffer.length());
        RWFToJsonOptions options = ConverterFactory.createRWFToJsonOptions();
        options.setJsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
        ConversionResults results = ConverterFactory.createConversionResults();
        error.clear();
        check(converter.convertRWFToJson(decoded(sent, CodecFactory.createDecodeIterator()), options, results, error));
        Buffer json = CodecFactory.createBuffer();
        json.data(ByteBuffer.allocate(results.getLength()));
        GetJsonMsgOptions wanted = ConverterFactory.createGetJsonMsgOptions();
        wanted.jsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
        wanted.streamId(5);
        check(converter.getJsonBuffer(json, wanted, error));
        byte[] bytes = new byte[json.length()];
        json.data().duplicate().position(json.position()).get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** The Real that the converter reads in JSON, as digits; or where it stops. */
    static String read(String json) {
        Buffer text = CodecFactory.createBuffer();
        text.data(ByteBuffer.wrap(json.getBytes(StandardCharsets.UTF_8)));
        ParseJsonOptions parsing = ConverterFactory.createParseJsonOptions();
        parsing.setProtocolType(JsonProtocol.JSON_JPT_JSON2);
        error.clear();
        if (converter.parseJsonBuffer(text, parsing, error) != CodecReturnCodes.SUCCESS) return "not parsed";
        DecodeJsonMsgOptions decoding = ConverterFactory.createDecodeJsonMsgOptions();
        decoding.setJsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
        decoding.setRsslProtocolType(Codec.protocolType());
        decoding.setMajorVersion(MAJOR);
        decoding.setMinorVersion(MINOR);
        JsonMsg message = ConverterFactory.createJsonMsg();
        if (converter.decodeJsonMsg(message, decoding, error) != CodecReturnCodes.SUCCESS) return "refused";
        DecodeIterator decoder = CodecFactory.createDecodeIterator();
        decoded(message.rwfMsg().encodedMsgBuffer(), decoder);
        check(CodecFactory.createElementList().decode(decoder, null));
        check(CodecFactory.createElementEntry().decode(decoder));
        Real real = CodecFactory.createReal();
        check(real.decode(decoder));
        return java.math.BigDecimal.valueOf(real.toLong(), RealHints.EXPONENT0 - real.hint()).toPlainString();
    }

    static Msg decoded(Buffer buffer, DecodeIterator decoder) {
        decoder.setBufferAndRWFVersion(buffer, MAJOR, MINOR);
        Msg message = CodecFactory.createMsg();
        check(message.decode(decoder));
        return message;
    }

    static void check(int code) {
        if (code < CodecReturnCodes.SUCCESS) throw new IllegalStateException(CodecReturnCodes.toString(code) + " " + error.getText());
    }

    static void expect(String name, String then, String seen) {
        wrong += seen.equals(then) ? 0 : 1;
        System.out.println(name + ": " + seen + (seen.equals(then) ? "" : " (it was " + then + ")"));
    }
}
JAVA
java -cp "$(cat classpath)" Reals.java
