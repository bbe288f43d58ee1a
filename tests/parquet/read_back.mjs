// read_back.mjs MODULES FILE...: compares the content of each Parquet file, as hyparquet reads it, with
// FILE.expected. Prints a line for each difference. The exit code is 1 if there is one.
//
// MODULES: node_modules with hyparquet and hyparquet-compressors. FILE.expected is JSON lines
// (views/tables/parquet_reader_fixture.cc): a line for the table, then a line per column with its cells as in
// CSV.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, ...files] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(resolve(join(modules, path))));
const { parquetMetadata, parquetReadObjects } = await load('hyparquet/src/index.js');
const { parquetHeader } = await load('hyparquet/src/column.js');
const { deserializeTCompactProtocol } = await load('hyparquet/src/thrift.js');
const { compressors } = await load('hyparquet-compressors/src/index.js');

// fatal: bytes that are not UTF-8 would otherwise become a different text without an error.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const parsers = { stringFromBytes: (bytes) => bytes && utf8.decode(bytes) };
const integer = (column) => column.type === 'INT32' || column.type === 'INT64';
const pathOf = (column) => (column.list ? [column.name, 'list', 'element'] : [column.name]);

// The elements of the schema that a column has: one, or the three of a list.
function schemaOf(column) {
  const text = column.type === 'BYTE_ARRAY';
  const value = (name, repetition) => [name, column.type, repetition, text ? 'UTF8' : undefined, text ? 'STRING' : undefined];
  if (!column.list) return [value(column.name, column.may_be_null ? 'OPTIONAL' : 'REQUIRED')];
  return [
    [column.name, undefined, 'REQUIRED', 'LIST', 'LIST'],
    ['list', undefined, 'REPEATED', undefined, undefined],
    value('element', 'REQUIRED'),
  ];
}

function checkSchema(meta, table) {
  const [root, ...columns] = meta.schema;
  assert.equal(root.name, table.name, "the table's name");
  assert.equal(root.num_children, table.columns.length, 'columns');
  assert.deepEqual(
    columns.map((c) => [c.name, c.type, c.repetition_type, c.converted_type, c.logical_type?.type]),
    table.columns.flatMap(schemaOf),
  );
  // A golden file keeps the meanings that its version wrote, so an empty expected meaning stands for any.
  const expected = [
    { key: 'lockstep.table', value: table.meaning },
    ...table.columns.map((c) => ({ key: `lockstep.column.${c.name}`, value: c.meaning })),
  ];
  const found = meta.key_value_metadata.map(({ key, value }, i) => ({ key, value: expected[i]?.value ? value : '' }));
  assert.deepEqual(found, expected);
  assert.match(meta.created_by, /^Lockstep \(tables version \d+\)$/);
}

// hyparquet ignores the order of the columns' statistics and bytes after the end of the footer.
function checkFooter(bytes, meta) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  assert.equal(view.getUint32(0, true), 0x31524150, 'PAR1 in front');
  const reader = { view, offset: bytes.length - 8 - meta.metadata_length };
  const footer = deserializeTCompactProtocol(reader);
  assert.equal(reader.offset, bytes.length - 8, "the footer's end");
  const columns = meta.schema[0].num_children;
  assert.deepEqual(footer.field_7, Array.from({ length: columns }, () => ({ field_1: {} })), 'an order for each column');
}

// The headers of a chunk's pages must agree with the chunk's metadata. The chunk must start at `at`. Returns
// its end.
function checkPages(bytes, chunk, at) {
  const start = chunk.dictionary_page_offset ?? chunk.data_page_offset;
  assert.equal(Number(start), at, 'follows what stands before it');
  const end = at + Number(chunk.total_compressed_size);
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, end), offset: at };
  let uncompressed = 0;
  let values = 0;
  let firstData;
  while (reader.offset < end) {
    const from = reader.offset;
    const page = parquetHeader(reader);
    uncompressed += reader.offset - from + page.uncompressed_page_size;
    reader.offset += page.compressed_page_size;
    if (page.type === 'DICTIONARY_PAGE') {
      assert.equal(from, Number(chunk.dictionary_page_offset), 'the dictionary is where the chunk says');
      continue;
    }
    firstData ??= from;
    values += page.data_page_header.num_values;
    assert.ok(chunk.encodings.includes(page.data_page_header.encoding), `states ${page.data_page_header.encoding}`);
  }
  assert.equal(reader.offset, end, "the last page's end");
  assert.equal(firstData, Number(chunk.data_page_offset), 'the first data page is where the chunk says');
  assert.equal(values, Number(chunk.num_values), 'values of the pages');
  assert.equal(uncompressed, Number(chunk.total_uncompressed_size), 'uncompressed bytes');
  return end;
}

// A bound of texts may be cut after 64 bytes. It then says that it is not exact.
function checkTextBounds(statistics, texts) {
  const bytes = (text) => Buffer.from(text, 'utf8');
  const sorted = texts.map(bytes).sort(Buffer.compare);
  const { min_value: least, max_value: most } = statistics;
  if (sorted.length === 0) return assert.deepEqual([least, most], [undefined, undefined], 'bounds of no text');
  const [first, last] = [sorted[0], sorted[sorted.length - 1]];
  assert.ok(bytes(least).length <= 64 && Buffer.compare(bytes(least), first) <= 0, 'lower bound');
  assert.equal(statistics.is_min_value_exact, bytes(least).equals(first), 'exact lower bound');
  if (first.length <= 64) assert.ok(bytes(least).equals(first), 'least text');
  if (most === undefined) return assert.ok(last.length > 64, 'upper bound of a short text');
  assert.ok(bytes(most).length <= 64 && Buffer.compare(bytes(most), last) >= 0, 'upper bound');
  assert.equal(statistics.is_max_value_exact, bytes(most).equals(last), 'exact upper bound');
  if (last.length <= 64) assert.ok(bytes(most).equals(last), 'greatest text');
}

function checkStatistics(statistics, column, cells) {
  if (column.list) return assert.equal(statistics, undefined, 'statistics of a list');
  const there = cells.filter((c) => c !== null);
  assert.equal(Number(statistics.null_count), cells.length - there.length, 'nulls');
  if (column.type === 'BYTE_ARRAY') return checkTextBounds(statistics, there);
  const numbers = integer(column) ? there.map(BigInt) : [];
  const found = [statistics.min_value, statistics.max_value].map((v) => (v === undefined ? v : BigInt(v)));
  const least = (a, b) => (a < b ? a : b);
  const most = (a, b) => (a > b ? a : b);
  assert.deepEqual(found, numbers.length === 0 ? [undefined, undefined] : [numbers.reduce(least), numbers.reduce(most)], 'least and greatest');
}

function checkChunks(bytes, meta, table, cells) {
  assert.deepEqual(meta.row_groups.map((g) => Number(g.num_rows)), table.group_rows, 'rows of the groups');
  let at = 4;
  let row = 0;
  for (const [number, group] of meta.row_groups.entries()) {
    const rows = Number(group.num_rows);
    assert.equal(group.columns.length, table.columns.length);
    let uncompressed = 0;
    for (const [i, column] of table.columns.entries()) {
      const chunk = group.columns[i].meta_data;
      try {
        const here = cells[i].slice(row, row + rows);
        assert.deepEqual(chunk.path_in_schema, pathOf(column));
        // An empty list counts as a value.
        const values = column.list ? here.reduce((sum, cell) => sum + Math.max(1, JSON.parse(cell).length), 0) : rows;
        assert.deepEqual([chunk.type, chunk.codec, Number(chunk.num_values)], [column.type, 'ZSTD', values]);
        at = checkPages(bytes, chunk, at);
        checkStatistics(chunk.statistics, column, here);
      } catch (error) {
        error.message = `group ${number}, ${column.name}: ${error.message}`;
        throw error;
      }
      uncompressed += Number(chunk.total_uncompressed_size);
    }
    assert.equal(Number(group.total_byte_size), uncompressed, `bytes of group ${number}`);
    row += rows;
  }
  assert.equal(at, bytes.length - 8 - meta.metadata_length, 'the footer follows the last chunk');
}

const typeOf = { BOOLEAN: 'boolean', INT32: 'number', INT64: 'bigint', BYTE_ARRAY: 'string' };

// Doubles are compared as numbers, because 3e5 equals 300000. Integers are compared as text, because a
// JavaScript number cannot hold all of them.
function same(got, want, column) {
  const { type } = column;
  if (column.list) return sameList(got, want, column);
  if (want === null || got === null || got === undefined) return want === null && (got === null || got === undefined);
  return type === 'DOUBLE' ? Object.is(got, Number(want)) : typeof got === typeOf[type] && String(got) === want;
}

// `want` is a JSON array. JavaScript would round its large integers, so they are compared as texts.
function sameList(got, want, column) {
  const elements = column.type === 'BYTE_ARRAY' ? JSON.parse(want) : want.slice(1, -1).split(',').filter(Boolean);
  const single = { type: column.type };
  return Array.isArray(got) && got.length === elements.length && elements.every((element, i) => same(got[i], element, single));
}

async function checkCells(bytes, meta, table, cells) {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const rows = await parquetReadObjects({ file, metadata: meta, compressors, parsers });
  const count = table.group_rows.reduce((sum, rows) => sum + rows, 0);
  assert.equal(Number(meta.num_rows), count, 'rows of the footer');
  assert.equal(rows.length, count, 'rows that were read');
  for (const [i, column] of table.columns.entries()) {
    assert.equal(cells[i].length, count);
    for (const [row, want] of cells[i].entries()) {
      const got = rows[row][column.name];
      if (same(got, want, column)) continue;
      const short = (value) => (value === null || value === undefined ? 'null' : JSON.stringify(String(value).slice(0, 100)));
      assert.fail(`${column.name}, row ${row}: ${short(got)} in place of ${short(want)}`);
    }
  }
}

let found = 0;
for (const name of files) {
  try {
    const lines = readFileSync(`${name}.expected`, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const [table, ...cells] = lines;
    const bytes = new Uint8Array(readFileSync(name));
    const meta = parquetMetadata(bytes, { parsers });
    assert.equal(cells.length, table.columns.length);
    checkSchema(meta, table);
    checkFooter(bytes, meta);
    checkChunks(bytes, meta, table, cells);
    await checkCells(bytes, meta, table, cells);
  } catch (error) {
    console.log(`${name}: ${error.message.replaceAll('\n', ' ').slice(0, 500)}`);
    found = 1;
  }
}
process.exit(found);
