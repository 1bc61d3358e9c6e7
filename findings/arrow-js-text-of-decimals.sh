#!/usr/bin/env bash
# Prices as decimals of Arrow's four widths, written by pyarrow 26.0.1 to an IPC file and read in JavaScript by apache-arrow 21.2.0 (npm).
#
# Guess: a decimal comes as an object whose text is the price, 101.25, whatever its width; as a number it may lose digits.
# Seen: the text leaves the scale out (101.2500 is "1012500"), and it depends on the width. With 128 bits -0.2500 is "-2500"; with 64 bits it is
# "18446744073709549116", the same bits without a sign; with 256 bits every one of these prices is "0" and -0.2500 "-0". With 32 bits the text is right but
# the number is an error (a RangeError or a TypeError, by the place in the column). `toJSON` gives these texts in a second pair of quotes, and toString of the
# table the texts without any. So a page that shows decimals as 256 bits shows no price, and one with 64 bits is right until a spread or a yield is negative.
# `valueOf(scale)`, with the scale taken from the field's type, gives the price as a double for 64, 128 and 256 bits, with its sign.
# Consequence: whoever sends decimals to browsers sends 128 bits, tells his users of `valueOf(scale)`, or sends integers and the scale apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install pyarrow==26.0.1
npm install --silent --no-audit --no-fund --prefix . apache-arrow@21.2.0
venv/bin/python - <<'PYTHON'
from decimal import Decimal

import pyarrow
from pyarrow import ipc

prices = [Decimal("101.2500"), Decimal("-0.2500"), Decimal("37.6300"), Decimal("-37.6300")]
widths = {32: pyarrow.decimal32, 64: pyarrow.decimal64, 128: pyarrow.decimal128, 256: pyarrow.decimal256}
table = pyarrow.table({str(bits): pyarrow.array(prices, make(9, 4)) for bits, make in widths.items()})
with ipc.new_file("prices.arrow", table.schema) as file:
    file.write(table)
PYTHON
cat > read.mjs <<'JAVASCRIPT'
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { tableFromIPC } from 'apache-arrow';

const table = tableFromIPC(readFileSync('prices.arrow'));

/** What a conversion gives, or the name of its error. */
function tried(convert) {
  try {
    return convert();
  } catch (error) {
    return error.name;
  }
}

const seen = {};
for (const { name, type } of table.schema.fields) {
  const prices = [...table.getChild(name)];
  seen[name] = {
    texts: prices.map((price) => `${price}`),
    numbers: prices.map((price) => tried(() => Number(price))),
    scaled: prices.map((price) => tried(() => price.valueOf(type.scale))),
  };
  console.log(name, 'bits:', JSON.stringify(seen[name]));
}
const json = JSON.stringify({ price: table.getChild('128').get(0) });
const [first, second] = table.toString().split('\n').slice(1);
console.log('JSON:', json);
console.log('rows:', first, second);

const units = [1012500, -2500, 376300, -376300];
const prices = units.map((unit) => unit / 10_000);
assert.deepEqual(seen['128'], { texts: units.map(String), numbers: units, scaled: prices });
assert.deepEqual(seen['64'], { texts: units.map((unit) => String(BigInt.asUintN(64, BigInt(unit)))), numbers: units, scaled: prices });
assert.deepEqual(seen['256'], { texts: ['0', '-0', '0', '-0'], numbers: units, scaled: prices });
assert.deepEqual(seen['32'].texts, units.map(String));
for (const outcome of [...seen['32'].numbers, ...seen['32'].scaled]) {
  assert(['RangeError', 'TypeError'].includes(outcome), outcome);
}
assert.equal(json, '{"price":"\\"1012500\\""}');
assert.match(first, /"64": 1012500, "128": 1012500, "256": 0}/);
assert.match(second, /"64": 18446744073709549116, "128": -2500, "256": -0}/);
console.log('as it was');
JAVASCRIPT
node read.mjs
