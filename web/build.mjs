// build.mjs SRC MODULES OUT: bundles SRC/main.ts and SRC/style.css into OUT/page.html, and that into OUT/page_template.cc.
//
// The page may load nothing and run nothing but what is in it: its policy names this script and this style sheet by their hashes.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [src, modules, out] = process.argv.slice(2);
const require = createRequire(join(modules, 'x.js'));
const esbuild = require('esbuild');

const bundle = async (entry) => {
  const result = await esbuild.build({
    entryPoints: [join(src, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: ['chrome100', 'firefox100', 'safari15.4'],
    charset: 'utf8',
    legalComments: 'inline',
    nodePaths: [modules],
    logLevel: 'warning',
  });
  return result.outputFiles[0].text.trim();
};

const hashOf = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
const script = (await bundle('main.ts')).replaceAll('</script', '<\\/script');
const style = await bundle('style.css');
const policy = `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
// Replacements as functions: a '$' of the code is no pattern.
const page = readFileSync(join(src, 'page.html'), 'utf8')
  .replace('{{licence}}', () => readFileSync(join(modules, 'uplot/LICENSE'), 'utf8').replaceAll('--', '- -'))
  .replace('{{policy}}', () => policy)
  .replace('{{style}}', () => style)
  .replace('{{script}}', () => script);
writeFileSync(join(out, 'page.html'), page);

const bytes = Buffer.from(page, 'utf8');
const lines = [];
for (let i = 0; i < bytes.length; i += 32) lines.push([...bytes.subarray(i, i + 32)].join(','));
writeFileSync(
  join(out, 'page_template.cc'),
  `// Made by web/build.mjs.
#include "aggregator/html/page.h"

namespace lockstep::html {
namespace {

const unsigned char kBytes[] = {
${lines.join(',\n')}};

}  // namespace

std::string_view PageTemplate() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace lockstep::html
`,
);
