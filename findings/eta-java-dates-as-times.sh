#!/usr/bin/env bash
# ETA Java 3.9.1: dates and times set from texts (`DateTime.value`, `Date.value`, `Time.value`), as a publisher sets them from a file or a message.
#
# Guess: ISO 8601 is read; a text of another form is refused (INVALID_ARGUMENT), and a date alone leaves the time blank.
# Seen: SUCCESS, with another value. "2024-01-02 14:30:00" with a blank in place of the T is the time 20:24 without a date, as are "2024-01-02" alone and the
# date given to a Time: the year's digits are taken for hours and minutes (20:25 in 2025). "02 JAN 2024" has the time 02:00 and "1/2/2024" 01:00 beside the
# right date. An offset is read over: 14:30:00+05:30, -05:00 and Z are all 14:30. Years of two digits are those of 1900: a Date of "01/02/24" is 2 January
# 1924. `isValid` is true for all of these.
# Consequence: a publisher reads texts with a library of its own and sets year, month, hour and minute by number; a consumer that sees times of 20:24 and
# 20:25 on fields of dates looks for such a publisher.
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
cat > Dates.java <<'JAVA'
import com.refinitiv.eta.codec.*;

public class Dates {
    static int wrong;

    static void expect(String type, String text, int code, boolean isValid, Object value, String then) {
        String seen = CodecReturnCodes.toString(code) + " " + (isValid ? "" : "invalid ") + value;
        wrong += seen.equals("SUCCESS " + then) ? 0 : 1;
        System.out.println(type + " '" + text + "': " + seen + (seen.equals("SUCCESS " + then) ? "" : " (it was SUCCESS " + then + ")"));
    }

    static void dateTime(String text, String then) {
        DateTime value = CodecFactory.createDateTime();
        int code = value.value(text);
        expect("DateTime", text, code, value.isValid(), value, then);
    }

    static void date(String text, String then) {
        Date value = CodecFactory.createDate();
        int code = value.value(text);
        expect("Date", text, code, value.isValid(), value, then);
    }

    static void time(String text, String then) {
        Time value = CodecFactory.createTime();
        int code = value.value(text);
        expect("Time", text, code, value.isValid(), value, then);
    }

    public static void main(String[] arguments) {
        String right = "02 JAN 2024 14:30:00:000:000:000";
        dateTime("2024-01-02T14:30:00", right);
        dateTime("02 JAN 2024 14:30:00", right);
        dateTime("1/2/2024 14:30:00", right);

        String clock = "20:24:00:000:000:000";
        dateTime("2024-01-02 14:30:00", clock);
        dateTime("2024-01-02", clock);
        time("2024-01-02", clock);
        time("2024-01-02T14:30:00", clock);
        dateTime("2025-12-31 09:30:00", "20:25:00:000:000:000");

        dateTime("02 JAN 2024", "02 JAN 2024 02:00:00:000:000:000");
        dateTime("1/2/2024", "02 JAN 2024 01:00:00:000:000:000");
        dateTime("2024-01-02T14:30:00+05:30", right);
        dateTime("2024-01-02T14:30:00-05:00", right);
        dateTime("2024-01-02T14:30:00Z", right);
        date("2024-01-02", "02 JAN 2024");
        date("01/02/24", "02 JAN 1924");
        date("02 JAN 24", "02 JAN 1924");
        if (wrong > 0) throw new IllegalStateException(wrong + " are others now");
        System.out.println("as it was");
    }
}
JAVA
java -cp "$(cat classpath)" Dates.java
