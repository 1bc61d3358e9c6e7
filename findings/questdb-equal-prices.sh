#!/usr/bin/env bash
# QuestDB 9.1.0 (Maven Central, run in the process): what `=` takes for equal among prices as doubles and floats.
#
# Guess: numbers are compared as they are, as in other databases; 0.1 + 0.2 is not 0.3, and a float is compared with 0.3 after it has become a double.
# Seen: two doubles are equal up to a difference of 1e-10, whatever their size: 0.000000000012 and 0.000000000045 (a coin in bitcoins) are equal, each is
# equal to nought, and neither is greater than nought, so `where bid > 0` leaves it out and `where bid = ask` calls the market locked. So are they for `!=`,
# `<`, `>=`, `in`, `nullif`, the select list and `order by`, which leaves the two in the order in which they came; but `distinct`, joins and `case when bid =
# 0` take the numbers as they are: one query counts two prices that another says are one. Of a float, `where last = 65000.01` finds the row, and the same
# comparison in the select list of that row says false.
# Consequence: prices that can be small are kept as integers with a scale, or as text for keys; a filter by a float is not repeated in a select list.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.questdb</groupId><artifactId>questdb</artifactId><version>9.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
cat > Equal.java <<'JAVA'
import io.questdb.cairo.CairoEngine;
import io.questdb.cairo.CursorPrinter;
import io.questdb.cairo.DefaultCairoConfiguration;
import io.questdb.cairo.security.AllowAllSecurityContext;
import io.questdb.cairo.sql.RecordCursor;
import io.questdb.cairo.sql.RecordCursorFactory;
import io.questdb.griffin.SqlExecutionContextImpl;
import io.questdb.std.str.StringSink;

public class Equal {
    private static CairoEngine engine;
    private static SqlExecutionContextImpl context;
    private static int wrong;

    public static void main(String[] arguments) throws Exception {
        try (CairoEngine made = new CairoEngine(new DefaultCairoConfiguration(arguments[0]))) {
            engine = made;
            context = new SqlExecutionContextImpl(made, 1).with(AllowAllSecurityContext.INSTANCE, null);
            made.execute("create table quotes (ts timestamp, item symbol, bid double, ask double, last float) timestamp(ts) partition by day bypass wal", context);
            quote("COIN", "1.2e-11, 4.5e-11, 0.5");
            quote("LESS", "5.0e-10, 6.5e-10, 0.25");
            quote("BOND", "0.3, 0.30000000000000004, 0.3");
            quote("XBT", "65000.01, 65000.02, 65000.01");

            expect("COIN BOND", "select item from quotes where bid = ask");
            expect("LESS XBT", "select item from quotes where bid != ask");
            expect("LESS XBT", "select item from quotes where bid < ask");
            expect("COIN BOND", "select item from quotes where bid >= ask");
            expect("LESS BOND XBT", "select item from quotes where bid > 0");
            expect("COIN", "select item from quotes where bid = 0");
            expect("COIN", "select item from quotes where bid in (0.0)");
            expect("true false true false", "select bid = ask from quotes");
            expect("true", "select 0.1 + 0.2 = 0.3");

            expect("price price price price", "select case when bid = 0 then 'nothing' else 'price' end from quotes");
            expect("null 5.0E-10 0.3 65000.01", "select nullif(bid, 0.0) from quotes");
            String coin = "(select bid as price from quotes where item = 'COIN' union all select ask as price from quotes where item = 'COIN')";
            expect("1.2E-11 4.5E-11", "select price from " + coin + " order by price desc");
            expect("2", "select count() from (select distinct price from " + coin + ")");
            expect("", "select a.item from quotes a join quotes b on a.bid = b.ask");

            expect("XBT", "select item from quotes where last = 65000.01");
            expect("false", "select last = 65000.01 from quotes where last = 65000.01");
        }
        if (wrong > 0) {
            throw new IllegalStateException(wrong + " answers are others now");
        }
        System.out.println("as it was");
    }

    private static void quote(String item, String prices) throws Exception {
        engine.execute("insert into quotes values ('2024-01-02T10:00:00.000000Z', '" + item + "', " + prices + ")", context);
    }

    /** Compares the values of a query's only column, in their order. */
    private static void expect(String then, String query) throws Exception {
        StringSink sink = new StringSink();
        try (RecordCursorFactory factory = engine.select(query, context); RecordCursor cursor = factory.getCursor(context)) {
            CursorPrinter.println(cursor, factory.getMetadata(), sink);
        }
        String[] lines = sink.toString().split("\n");
        String seen = String.join(" ", java.util.Arrays.copyOfRange(lines, 1, lines.length));
        wrong += seen.equals(then) ? 0 : 1;
        System.out.println(query + ": " + seen + (seen.equals(then) ? "" : " (it was " + then + ")"));
    }
}
JAVA
javac -nowarn -cp "$(cat classpath)" Equal.java
mkdir database
java -cp ".:$(cat classpath)" Equal database > seen 2> log || { cat seen log; exit 1; }
grep -v '^20.* i\.q\.' seen
