// run_sql.mjs MODULES: reads {"queries": [SQL, …], "files": [FILE, …]} from standard input. Runs the queries with
// DuckDB, reads the Parquet files with DuckDB and with Polars, and prints the answers and all columns as JSON.
// Relative paths start at the working folder. DuckDB's large integers become texts; those of Polars are doubles.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const load = createRequire(join(resolve(process.argv[2]), 'package.json'));
const { DuckDBInstance } = load('@duckdb/node-api');
const polars = load('nodejs-polars');

const connection = await (await DuckDBInstance.create()).connect();
const { queries, files } = JSON.parse(readFileSync(0, 'utf8'));

async function run(sql) {
  try {
    const reader = await connection.runAndReadAll(sql);
    return { columns: reader.columnNames(), rows: reader.getRowsJson() };
  } catch (error) {
    return { error: error.message };
  }
}

async function withDuckDb(file) {
  const reader = await connection.runAndReadAll(`SELECT * FROM read_parquet('${file}')`);
  const columns = reader.getColumnsJson();
  return Object.fromEntries(reader.columnNames().map((name, i) => [name, columns[i] ?? []]));
}

function withPolars(file) {
  const frame = polars.readParquet(file);
  return Object.fromEntries(frame.columns.map((name) => [name, frame.getColumn(name).toArray()]));
}

const answers = [];
for (const sql of queries) answers.push(await run(sql));
const read = {};
for (const file of files) read[file] = { duckdb: await withDuckDb(file), polars: withPolars(file) };
const keywords = await run("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'");
process.stdout.write(JSON.stringify({ answers, read, keywords: keywords.rows.flat() }));
