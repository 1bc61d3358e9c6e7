#!/usr/bin/env bash
# Price times quantity where both are DECIMAL with the usual 18 digits, or with 38: DuckDB 2.0.1 beside pyarrow 26.0.1.
#
# Guess: the product has the digits and the places of both (18 + 18 digits fit into 38), and where that is too much the last places go, as in other SQL.
# Seen: DuckDB adds the places and keeps 18 digits as long as both factors have no more: DECIMAL(18, 8) times DECIMAL(18, 8) is a DECIMAL(18, 16), which has
# two digits before the point. 101.25 by 2,000 is an Out of Range Error, as a column, in a sum and in a filter, and 9 by 9 is not: a query works until a
# product reaches 100. One digit more in one factor, DECIMAL(19, 8), and the product has 37 digits. A factor that is a BIGINT makes 37, too, a DECIMAL(18, 0)
# does not. pyarrow is the other way round: it multiplies two of 18 digits (37 digits, 16 places), and refuses two of 38 digits whatever the values are.
# What follows: no one decimal type can be multiplied in both; whoever hands out tables says so, and whoever multiplies in DuckDB casts one factor to
# DECIMAL(38, s) first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import duckdb
import pyarrow
import pyarrow.compute

NOTIONAL = Decimal("202500")


def by_duckdb(left, right, price="101.25", size="2000"):
    """The type of the product, and what each of three queries gives: a value or the kind of its error."""
    kind = duckdb.sql(f"select typeof({price}::{left} * {size}::{right})").fetchall()[0][0]
    rows = f"(select {price}::{left} as p, {size}::{right} as q)"
    found = []
    for query in (f"select p * q from {rows}", f"select sum(p * q) from {rows}", f"select p * q from {rows} where p * q > 1"):
        try:
            found.append(duckdb.sql(query).fetchall()[0][0])
        except duckdb.OutOfRangeException:
            found.append("out of range")
    assert len(set(found)) == 1, found
    return kind, found[0]


narrow, wide = "decimal(18,8)", "decimal(38,8)"
seen = {
    (narrow, narrow): ("DECIMAL(18,16)", "out of range"),
    (narrow, "decimal(19,8)"): ("DECIMAL(37,16)", NOTIONAL),
    (narrow, "decimal(18,0)"): ("DECIMAL(18,8)", NOTIONAL),
    (narrow, "bigint"): ("DECIMAL(37,8)", NOTIONAL),
    (wide, wide): ("DECIMAL(38,16)", NOTIONAL),
}
for types, expected in seen.items():
    found = by_duckdb(*types)
    print("DuckDB", *types, "->", *found)
    assert found == expected, (types, found)
assert by_duckdb(narrow, narrow, "9", "9") == ("DECIMAL(18,16)", 81)
assert by_duckdb(narrow, narrow, "10", "10") == ("DECIMAL(18,16)", "out of range")


def by_pyarrow(digits):
    price, size = (pyarrow.array([Decimal(value)], pyarrow.decimal128(digits, 8)) for value in ("101.25", "2000"))
    try:
        product = pyarrow.compute.multiply(price, size)
    except pyarrow.ArrowInvalid as error:
        return str(error)
    return str(product.type), product[0].as_py()


for digits in (18, 38):
    print("pyarrow", digits, "digits ->", by_pyarrow(digits))
assert by_pyarrow(18) == ("decimal128(37, 16)", NOTIONAL)
assert "precision out of range" in by_pyarrow(38)
PYTHON
