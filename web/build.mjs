// build.mjs SRC MODULES OUT: bundles the pages, and writes each as HTML and as a C++ source. SRC/main.ts and
// SRC/style.css become OUT/page.html (report.html without data). SRC/index.ts and SRC/index.css become
// OUT/index.html (the aggregator's page).
//
// A page may load and run only its own content. Its policy names its script and its style sheet by their
// hashes. The aggregator's page may also send requests to its own server.
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

// Writes a page as PAGE.html in OUT and as a C++ function that returns it.
async function make({ page, script: entry, style: sheet, extraPolicy = '', header, space, name }) {
  const script = (await bundle(entry)).replaceAll('</script', '<\\/script');
  const style = await bundle(sheet);
  const policy = `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; img-src data:; ${extraPolicy}base-uri 'none'; form-action 'none'`;
  // The replacements are functions, because a '$' in a replacement text would have a special meaning.
  const text = readFileSync(join(src, page), 'utf8')
    .replace('{{licence}}', () => readFileSync(join(modules, 'uplot/LICENSE'), 'utf8').replaceAll('--', '- -'))
    .replace('{{policy}}', () => policy)
    .replace('{{style}}', () => style)
    .replace('{{script}}', () => script);
  writeFileSync(join(out, page), text);

  const bytes = Buffer.from(text, 'utf8');
  const lines = [];
  for (let i = 0; i < bytes.length; i += 32) lines.push([...bytes.subarray(i, i + 32)].join(','));
  writeFileSync(
    join(out, page.replace('.html', '_template.cc')),
    `// Made by web/build.mjs.
#include "${header}"

namespace lockstep::${space} {
namespace {

const unsigned char kBytes[] = {
${lines.join(',\n')}};

}  // namespace

std::string_view ${name}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace lockstep::${space}
`,
  );
}

await make({ page: 'page.html', script: 'main.ts', style: 'style.css', header: 'web/page/page.h', space: 'web', name: 'PageTemplate' });
await make({
  page: 'index.html',
  script: 'index.ts',
  style: 'index.css',
  extraPolicy: "connect-src 'self'; ",
  header: 'aggregator/site/site.h',
  space: 'aggregator',
  name: 'IndexPage',
});
