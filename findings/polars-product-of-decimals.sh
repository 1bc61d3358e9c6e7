#!/usr/bin/env bash
# Products of decimals (price times rate, price times size) in polars 2.1.0: as an expression and as SQL, beside DuckDB 2.0.1 and pyarrow 26.0.1.
#
# Guess: two DECIMAL with four places each give one with eight, as in SQL, and with 38 digits there is room for it; where a library takes
# another scale, it takes one for all its ways to multiply.
# Seen: an expression `price * rate` of polars keeps the larger scale of the two and rounds without a word: 0.0125 * 0.0125 is 0.0002, and 0.0050 * 0.0050 is
# nothing at all, before any sum is made. It is so eager, lazy, streaming, in `group_by` and of two Series. `sql("select price * rate")`, and
# `sql_expr("price * rate")` beside it in the same select, give 0.00015625, the scale eight, as DuckDB and pyarrow do. A factor that is cast to scale eight
# beforehand makes expressions right.
# What follows: whoever multiplies decimal columns in polars casts one to the sum of the scales first; a sum of charges over a day is otherwise off by
# up to half a unit of the price's last place for each row, and by another amount than in SQL.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import duckdb
import polars
import pyarrow
from polars import col
from pyarrow import compute

values = pyarrow.array([Decimal("0.0125"), Decimal("0.0050")], pyarrow.decimal128(18, 4))
prices = pyarrow.table({"price": values, "rate": values})
frame = polars.from_arrow(prices)
product = col("price") * col("rate")
wide = col("price").cast(polars.Decimal(38, 8)) * col("rate")
seen = {
    "expression": frame.select(product),
    "lazy": frame.lazy().select(product).collect(),
    "streaming": frame.lazy().select(product).collect(engine="streaming"),
    "series": (frame["price"] * frame["rate"]).to_frame(),
    "grouped": frame.group_by("price", maintain_order=True).agg(product.sum().alias("p")).select("p"),
    "sql": frame.sql("select price * rate as p from self"),
    "sql_expr": frame.select(polars.sql_expr("price * rate")),
    "wide": frame.select(wide),
}
seen = {name: [str(value) for value in result.to_series()] for name, result in seen.items()}
seen["DuckDB"] = [str(row[0]) for row in duckdb.sql("select price * rate from prices").fetchall()]
seen["pyarrow"] = [str(value) for value in compute.multiply(prices["price"], prices["rate"]).to_pylist()]
for name, found in seen.items():
    print(name, found)

SHORT, EXACT = ["0.0002", "0.0000"], ["0.00015625", "0.00002500"]
assert seen == {name: SHORT for name in ("expression", "lazy", "streaming", "series", "grouped")} | {
    name: EXACT for name in ("sql", "sql_expr", "wide", "DuckDB", "pyarrow")
}, seen
print("as it was")
PYTHON
