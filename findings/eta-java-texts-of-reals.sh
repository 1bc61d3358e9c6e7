#!/usr/bin/env bash
# ETA Java 3.9.1: prices and volumes as text and as double (`Real.toString`, `Real.toDouble`), decoded from RWF, where a Real is an integer of 64 bits and a
# hint.
#
# Guess: the text is the decimal that the two say, with all digits, and `Real.value(String)` reads it back; the double is the nearest one.
# Seen: the text is made of the double. A volume of 100,000,000 with exponent 0 is "1.0E8", which `value` reads with SUCCESS as 1.0: what stands behind the
# digits is left out. So a Real that is copied by its text is a hundred-millionth of itself; texts of more digits ("9.007199254740992E15") are refused. A
# turnover of 12345678901234567.89 is "12345678901234568.00", 99999999999999.99 is "100000000000000.00", and a volume of 101 is "101.0". With exponent 5 the
# double is wrong as well: 100,000 is 99999.99999999999, and so are 521 of the mantissas up to 1,000; the other exponents from -14 to 7 are right for all of
# these. `toLong` and `hint` are exact.
# Consequence: texts are made of `toLong` and `hint` (`BigDecimal.valueOf(toLong(), RealHints.EXPONENT0 - hint())` for all but fractions), and a Real is
# copied by the two numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>com.refinitiv.eta</groupId><artifactId>eta</artifactId><version>3.9.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
cat > Texts.java <<'JAVA'
import com.refinitiv.eta.codec.*;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;

public class Texts {
    static int wrong;

    /** A Real as a consumer has it: encoded and decoded. */
    static Real decoded(long mantissa, int hint) {
        Real real = CodecFactory.createReal();
        real.value(mantissa, hint);
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.allocate(32));
        EncodeIterator encoder = CodecFactory.createEncodeIterator();
        encoder.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
        check(real.encode(encoder));
        Buffer sent = CodecFactory.createBuffer();
        sent.data(buffer.data(), 0, buffer.length());
        DecodeIterator decoder = CodecFactory.createDecodeIterator();
        decoder.setBufferAndRWFVersion(sent, Codec.majorVersion(), Codec.minorVersion());
        Real received = CodecFactory.createReal();
        check(received.decode(decoder));
        if (received.toLong() != mantissa || received.hint() != hint) throw new IllegalStateException("not the Real that was sent");
        return received;
    }

    static void check(int code) {
        if (code != CodecReturnCodes.SUCCESS) throw new IllegalStateException(CodecReturnCodes.toString(code));
    }

    static BigDecimal exact(long mantissa, int hint) {
        return BigDecimal.valueOf(mantissa, RealHints.EXPONENT0 - hint);
    }

    static void expect(String name, Object then, Object seen) {
        wrong += seen.equals(then) ? 0 : 1;
        System.out.println(name + ": " + seen + (seen.equals(then) ? "" : " (it was " + then + ")"));
    }

    static void expectText(long mantissa, int hint, String then) {
        expect(exact(mantissa, hint).toPlainString(), then, decoded(mantissa, hint).toString());
    }

    public static void main(String[] arguments) {
        expectText(10125, RealHints.EXPONENT_2, "101.25");
        expectText(101, RealHints.EXPONENT0, "101.0");
        expectText(100_000_000, RealHints.EXPONENT0, "1.0E8");
        expectText(1_234_567_890_123_456_789L, RealHints.EXPONENT_2, "12345678901234568.00");
        expectText(9_999_999_999_999_999L, RealHints.EXPONENT_2, "100000000000000.00");
        expectText(1, RealHints.EXPONENT5, "99999.99999999999");

        ArrayList<String> inexact = new ArrayList<>();
        for (int hint = RealHints.EXPONENT_14; hint <= RealHints.EXPONENT7; hint++) {
            int count = 0;
            for (int mantissa = 1; mantissa <= 1000; mantissa++) {
                if (decoded(mantissa, hint).toDouble() != exact(mantissa, hint).doubleValue()) count++;
            }
            if (count > 0) inexact.add("exponent " + (hint - RealHints.EXPONENT0) + " " + count);
        }
        expect("doubles of mantissas up to 1,000 that are not the nearest", "[exponent 5 521]", inexact.toString());

        Real copy = CodecFactory.createReal();
        String volume = decoded(100_000_000, RealHints.EXPONENT0).toString();
        check(copy.value(volume));
        expect("a copy by its text " + volume, "1.0", copy.toString());
        String large = decoded(9_007_199_254_740_993L, RealHints.EXPONENT0).toString();
        expect("a copy by its text " + large, "INVALID_ARGUMENT", CodecReturnCodes.toString(copy.value(large)));
        check(copy.value("12345678901234567.89"));
        expect("the integer of a Real set from 12345678901234567.89", 1_234_567_890_123_456_789L, copy.toLong());
        if (wrong > 0) throw new IllegalStateException(wrong + " are others now");
        System.out.println("as it was");
    }
}
JAVA
java -cp "$(cat classpath)" Texts.java
