#!/usr/bin/env bash
# Prices of Databento's DBN as decimals (`DBNStore.to_df(price_type="decimal")`) in databento 0.88.0 with databento-dbn 0.70.0.
#
# Guess: a price on the wire is an integer of 1e-9, and "decimal" is the choice for those who want it exact, so each price has the digits of its integer;
# an undefined price becomes Decimal("NaN") or None.
# Seen: that is so as long as no price of the column is undefined. With one undefined price anywhere in the column all others have gone through a double first:
# 123456789.123456789 becomes 123456789.123456784, and 9007199.254740993 becomes 9007199.254740992. Up to 2^53 units (9,007,199.25)
# nothing changes. An undefined price is ordinary: a side of a book without orders has it. "fixed" keeps all digits, and the undefined ones as
# 9223372036854775807. CSV and JSON of the same records are exact, and to_parquet refuses "decimal".
# What follows: what a row says depends on the other rows of its batch. Whoever needs large prices exact (statistics, notionals, prices in won or rupiah)
# takes "fixed" and divides by himself, with the undefined value left out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install databento==0.88.0 databento-dbn==0.70.0 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" - "$folder/prices.csv" <<'PYTHON'
import sys
import warnings
from decimal import Decimal

import databento
import databento_dbn as dbn

warnings.simplefilter("ignore")
AT = 1_700_000_000_000_000_000
LARGE, JUST_ABOVE, USUAL = 123_456_789_123_456_789, 2**53 + 1, 4_500_250_000_001
metadata = dbn.Metadata(
    dataset="XNAS.ITCH", schema=dbn.Schema.TRADES, start=AT, end=AT + 1, limit=None, stype_in=dbn.SType.RAW_SYMBOL,
    stype_out=dbn.SType.INSTRUMENT_ID, symbols=["ZVZZT"], partial=[], not_found=[], mappings=[],
)


def store_of(prices):
    trades = [
        dbn.TradeMsg(
            publisher_id=1, instrument_id=7, ts_event=AT, price=price, size=1, action=dbn.Action.TRADE, side=dbn.Side.NONE, depth=0,
            ts_recv=AT, flags=0, ts_in_delta=0, sequence=1,
        )
        for price in prices
    ]
    return databento.DBNStore.from_bytes(metadata.encode() + b"".join(bytes(trade) for trade in trades))


def prices_of(prices, price_type):
    return store_of(prices).to_df(price_type=price_type)["price"].tolist()


defined = [LARGE, JUST_ABOVE, USUAL]
alone = prices_of(defined, "decimal")
beside = prices_of(defined + [dbn.UNDEF_PRICE], "decimal")
print("all defined:", *alone)
print("one undefined:", *beside)
assert alone == [Decimal(price).scaleb(-9) for price in defined], alone
assert beside[:3] == [Decimal("123456789.123456784"), Decimal("9007199.254740992"), Decimal("4500.250000001")], beside
assert beside[3].is_nan()
assert prices_of(defined + [dbn.UNDEF_PRICE], "fixed") == defined + [2**63 - 1]
store_of(defined + [dbn.UNDEF_PRICE]).to_csv(sys.argv[1])
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
assert "123456789.123456789" in text and "9007199.254740993" in text, text
print("as it was")
PYTHON
