// report_page_test.mjs MODULES LOCKSTEP LARGE_PAGE JOBS OUT GLOSSARY: tests report.html in a real, headless
// Chromium.
//
// MODULES: node_modules with playwright-core, axe-core and esbuild. LOCKSTEP: the program. LARGE_PAGE: makes a
// page of any size. JOBS: a folder with the jobs of report_page_test.py. Screenshots go to OUT. GLOSSARY:
// docs/glossary.md.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inflateSync } from 'node:zlib';

const [modules, lockstep, largePage, jobs, out, glossary] = process.argv.slice(2);
const require = createRequire(join(modules, 'x.js'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
assert.ok(executablePath, 'no Chromium: ./dev install --all installs it');

const DESK = { width: 1280, height: 900 },
  LAPTOP = { width: 1366, height: 768 },
  WIDE = { width: 1920, height: 1080 },
  PHONE = { width: 390, height: 844 };
const page = (name) => join(out, `${name}.html`);
const job = (name) => (name === 'model' ? 'model.pt.trace.json' : `${name}.timeline`);
const analyze = (name) => {
  // The file name without a folder, because the page shows it.
  execFileSync(lockstep, ['analyze', job(name), '--format', 'html', '-o', page(name)], { stdio: 'inherit', cwd: jobs });
  return page(name);
};
const reportOf = (name) =>
  JSON.parse(
    execFileSync(lockstep, ['analyze', join(jobs, job(name)), '--format', 'json'], { encoding: 'utf8', maxBuffer: 1 << 28 }),
  );

// Returns the number of texts on each page of a document that Chromium printed.
function textsOfPages(pdf) {
  const source = pdf.toString('latin1');
  const pages = [...source.matchAll(/<<\/Type \/Page\b[\s\S]*?\/Contents (\d+) 0 R/g)];
  return pages.map(([, object]) => {
    const at = source.indexOf(`\n${object} 0 obj`);
    const begin = source.indexOf('stream\n', at) + 'stream\n'.length;
    const content = inflateSync(pdf.subarray(begin, source.indexOf('\nendstream', begin))).toString('latin1');
    return (content.match(/\bT[jJ]\b/g) ?? []).length;
  });
}

// Opens a file and records its errors and requests.
async function opened(browser, file, options, use) {
  const context = await browser.newContext({ viewport: DESK, ...options });
  const tab = await context.newPage();
  const errors = [],
    requests = [];
  tab.on('console', (m) => {
    if (m.type() === 'error' || m.type() === 'warning') errors.push(m.text());
  });
  tab.on('pageerror', (e) => errors.push(String(e)));
  tab.on('request', (r) => {
    if (!r.url().startsWith('data:')) requests.push(r.url());
  });
  const url = pathToFileURL(file).href;
  const began = Date.now();
  await tab.goto(url);
  await tab.waitForSelector('html[data-ready=yes]', { timeout: 30000 });
  const ready = Date.now() - began;
  await use(tab, ready);
  assert.deepEqual(errors, [], 'the page reports no error');
  assert.deepEqual(requests, [url], 'nothing is asked for but the file itself');
  await context.close();
}

const NAMES = ['straggling', 'healthy', 'many', 'partial', 'model'];
const MOST_PRINTED_PAGES = 11;

const launch = () => chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
// A part that is not visible has no text that is shown, so these use its content.
const text = async (tab, selector) => (await tab.locator(selector).first().textContent()).replace(/\s+/g, ' ').trim();
const texts = (tab, selector) =>
  tab.locator(selector).evaluateAll((all) => all.map((e) => e.textContent.replace(/\s+/g, ' ').trim()));

// Returns one cell of each row in the document.
const column = (tab, section, place) =>
  tab.locator(`#${section} tbody tr`).evaluateAll((rows, k) => rows.map((r) => r.cells[k]?.textContent ?? ''), place);

test('report.html', async (t) => {
  const browser = await launch();
  t.after(() => browser.close());
  const straggling = analyze('straggling');
  for (const name of ['healthy', 'many', 'partial', 'model']) analyze(name);

  await t.test('the page without data is at most 500 KB', () => {
    const whole = readFileSync(straggling, 'utf8');
    const data = /id="lockstep-data">([^<]*)</.exec(whole)[1];
    assert.match(data, /^[A-Za-z0-9+/=]+$/);
    assert.ok(whole.length - data.length <= 500_000, `${whole.length - data.length} bytes`);
  });

  await t.test('the first screen equals the text report', async () => {
    for (const name of ['straggling', 'healthy']) {
      const output = execFileSync(lockstep, ['analyze', join(jobs, `${name}.timeline`)], { encoding: 'utf8' });
      await opened(browser, page(name), {}, async (tab) => {
        const sentence = (await text(tab, '.verdict .sentence')).replace(/\s+/g, ' ');
        if (name === 'straggling') assert.match(await text(tab, '.verdict .sentence .term'), /^\[.+, .+\]$/);
        // The text report wraps the sentence.
        assert.ok(output.replace(/\s+/g, ' ').startsWith(sentence), `"${sentence}" begins ${output.slice(0, 200)}`);
        assert.match(sentence, name === 'healthy' ? /^HEALTHY/ : /^STRAGGLER rank/);
        const box = await tab.locator('.verdict .sentence').boundingBox();
        assert.ok(box.y + box.height < DESK.height);
      });
    }
  });

  await t.test('charts respond to mouse and keyboard', async () => {
    const report = reportOf('straggling');
    const culprit = report.stragglers[0].ranks[0];
    await opened(browser, straggling, {}, async (tab) => {
      // The cursor starts at the worst cell, which belongs to the culprit.
      const cells = report.steps.flatMap((s) => s.ranks.map((r) => ({ step: s.step, ...r })));
      const worst = cells.reduce((a, b) => (b.lost_ns > a.lost_ns ? b : a));
      assert.match(await text(tab, '#heat .readout'), new RegExp(`^step ${worst.step}, rank ${worst.rank} `));
      await tab.locator('#heat .picture canvas').focus();
      await tab.keyboard.press('Home');
      await tab.keyboard.press('ArrowRight');
      assert.match(await text(tab, '#heat .readout'), new RegExp(`^step ${report.steps[1].step}, rank ${worst.rank} `));
      await tab.keyboard.press('Enter');
      assert.equal(await tab.locator('#partition tr.chosen').count(), 1);
      assert.equal(await text(tab, '#partition tr.chosen td'), String(worst.rank));
      // A click selects the first cell.
      const canvas = tab.locator('#heat .picture canvas');
      await canvas.scrollIntoViewIfNeeded();
      await canvas.click({ position: { x: 180, y: 8 } });
      assert.match(await text(tab, '#heat .readout'), new RegExp(`^step ${report.steps[0].step}, rank ${report.ranks[0].rank} `));
      assert.equal(await text(tab, '#partition tr.chosen td'), String(report.ranks[0].rank));

      assert.match(await text(tab, '#waiting .readout'), /^rank \d+ waited .+ per step for rank \d+$/);
      const drawn = await tab.locator('#causes svg').getAttribute('aria-label');
      assert.equal(report.stragglers[0].cause, 'gpu_clock');
      assert.ok(drawn.includes(`slow GPU, rank ${culprit} `), drawn);
      // The waterfall ends at the observed step.
      assert.match(drawn, /^ideal step .+observed step /);

      await tab.locator('#timeline canvas').focus();
      for (const key of ['n', 'n', '+', 'ArrowRight', 'ArrowDown', 'n']) await tab.keyboard.press(key);
      assert.match(await text(tab, '#timeline .readout'), new RegExp(`^rank ${culprit}, communication, at .+, .+`));
      await tab.locator('#timeline canvas').hover({ position: { x: 500, y: 70 } });
    });
  });

  await t.test('tables sort and search', async () => {
    await opened(browser, straggling, {}, async (tab) => {
      const head = tab.locator('#partition th', { hasText: /^waiting$/ });
      await head.locator('button').click();
      assert.equal(await head.getAttribute('aria-sort'), 'descending');
      const numbers = (list) => list.map((v) => parseFloat(v));
      const place = await head.evaluate((th) => th.cellIndex);
      // The culprit stays on top.
      const down = numbers(await column(tab, 'partition', place)).slice(1);
      assert.ok(down.length > 8);
      assert.deepEqual(
        down,
        [...down].sort((a, b) => b - a),
      );
      await head.locator('button').press('Enter');
      assert.equal(await head.getAttribute('aria-sort'), 'ascending');
      assert.deepEqual(
        numbers(await column(tab, 'partition', place)).slice(1),
        [...down].sort((a, b) => a - b),
      );
      await tab.locator('#collectives input').fill('all_reduce');
      for (const op of await column(tab, 'collectives', 3)) assert.match(op, /^all_reduce$/);
      await tab.locator('#collectives input').fill('no such group');
      assert.match(await text(tab, '#collectives .count'), /^0 of /);
      // Opens a view that has rows.
      await tab
        .locator('#tables summary', { hasText: /^\s*kernels/ })
        .first()
        .click();
      await tab.locator('#tables tbody tr').nth(3).waitFor();
    });
  });

  await t.test('the keyboard reaches every control with a visible focus', async () => {
    await opened(browser, straggling, {}, async (tab) => {
      const reached = new Set();
      for (let k = 0; k < 400; ++k) {
        await tab.keyboard.press('Tab');
        const at = await tab.evaluate(() => {
          const e = document.activeElement;
          if (e === document.body) return null;
          const style = getComputedStyle(e);
          return {
            what: `${e.closest('section')?.id ?? 'top'}:${e.tagName}`,
            ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
          };
        });
        if (!at) break;
        assert.ok(at.ring, `${at.what} shows the focus`);
        reached.add(at.what);
      }
      for (const what of [
        'top:A',
        'top:BUTTON',
        'heat:CANVAS',
        'heat:SELECT',
        'partition:BUTTON',
        'partition:INPUT',
        'waiting:CANVAS',
        'timeline:CANVAS',
        'timeline:BUTTON',
        'collectives:INPUT',
        'tables:SUMMARY',
      ]) {
        assert.ok(reached.has(what), `${what} was reached; reached: ${[...reached].join(' ')}`);
      }
    });
  });

  await t.test('axe finds no serious fault, light and dark, wide and narrow', async () => {
    for (const [name, options] of [
      ['straggling', {}],
      ['straggling', { colorScheme: 'dark' }],
      ['healthy', { viewport: PHONE }],
      ['healthy', { colorScheme: 'dark', viewport: PHONE }],
    ]) {
      await opened(browser, page(name), options, async (tab) => {
        // The page's policy forbids scripts. The debugger is not subject to it.
        const session = await tab.context().newCDPSession(tab);
        const run = async (expression) =>
          (await session.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })).result.value;
        await run(axe);
        const found = JSON.parse(
          await run(
            `axe.run().then((r) => JSON.stringify(r.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => ({ id: v.id, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + ' ' + n.failureSummary) }))))`,
          ),
        );
        assert.deepEqual(found, []);
      });
    }
  });

  await t.test('a phone shows the page without horizontal scrolling', async () => {
    for (const name of NAMES) {
      await opened(browser, page(name), { viewport: PHONE, hasTouch: true, isMobile: true }, async (tab) => {
        assert.ok((await tab.evaluate(() => document.documentElement.scrollWidth)) <= PHONE.width, name);
        // Hints at keys are of no use there.
        for (const hint of await tab.locator('.keys').all()) assert.ok(!(await hint.isVisible()));
        // A tap on a term shows its definition, inside the window.
        for (const term of await tab.locator('.verdict .term').all()) {
          await term.tap();
          assert.ok((await text(tab, '#definition')).length > 20);
          const box = await tab.locator('#definition').boundingBox();
          assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width && box.y >= 0 && box.y + box.height <= PHONE.height, name);
        }
      });
    }
  });

  await t.test('a laptop and a wide screen show no horizontal scroll bar', async () => {
    for (const name of NAMES) {
      for (const viewport of [LAPTOP, WIDE]) {
        await opened(browser, page(name), { viewport }, async (tab) => {
          assert.ok((await tab.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width, name);
          const edges = (selector) =>
            tab.locator(selector).evaluate((e) => {
              const b = e.getBoundingClientRect();
              return [b.left, b.right];
            });
          assert.deepEqual(await edges('footer'), await edges('main'), 'the footer is below the column');
        });
      }
    }
  });

  await t.test('the first screen of a laptop has the action', async () => {
    for (const name of NAMES) {
      const [first] = reportOf(name).recommendations;
      await opened(browser, page(name), { viewport: LAPTOP }, async (tab) => {
        const action = tab.locator('.verdict .action').first();
        assert.match(await action.innerText(), /^(Do|Can wait): ./);
        if (first) assert.equal((await action.innerText()).replace(/^(Do|Can wait): /, ''), first);
        const box = await action.boundingBox();
        assert.ok(box.y + box.height < LAPTOP.height / 2, `${name}: ${box.y + box.height} px`);
        assert.ok(box.x + box.width <= LAPTOP.width);
        assert.ok(await tab.locator('.verdict .page').isVisible());
      });
    }
  });

  await t.test('waiting has one definition', async () => {
    const report = reportOf('straggling');
    const culprit = report.stragglers[0].ranks[0];
    const causer = report.waiting.causers.find((c) => c.rank === culprit);
    await opened(browser, straggling, {}, async (tab) => {
      const shown = (await text(tab, '#causes .facts')).match(/waiting for it ([\d.]+) (ms|us)/);
      assert.ok(
        Math.abs(parseFloat(shown[1]) * (shown[2] === 'ms' ? 1e6 : 1e3) - causer.mean_wait_ns_per_step) <
          0.01 * causer.mean_wait_ns_per_step,
      );
      for (const section of ['partition', 'waiting']) {
        const place = await tab.locator(`#${section} th`, { hasText: 'waiting for it' }).evaluate((th) => th.cellIndex);
        const row = (await column(tab, section, 0)).findIndex((rank) => rank === String(culprit));
        assert.equal((await column(tab, section, place))[row], `${shown[1]} ${shown[2]}`, section);
      }
      const words = await text(tab, 'main');
      assert.doesNotMatch(words, /together waited|wait [\d.]+ .s per step for it/);
      assert.match(words, /The sum over all ranks is/);
      assert.match(words, /others wait for it, but its own work costs/);
    });
  });

  await t.test('losses are folded unless they weaken the verdict', async () => {
    await opened(browser, straggling, {}, async (tab) => {
      assert.equal(await tab.locator('.weak').count(), 0);
      assert.equal(await tab.locator('#quality details').evaluate((d) => d.open), false);
      assert.match(await text(tab, '#quality summary'), /nothing weakens the verdict/);
    });
    await opened(browser, page('partial'), { viewport: LAPTOP }, async (tab) => {
      const weak = tab.locator('.verdict .weak');
      const { missing_ranks: missing } = reportOf('partial').capture;
      assert.ok((await weak.innerText()).includes(`${missing.length} of 16 ranks were not recorded`));
      assert.match(await weak.innerText(), /records were lost on \d+ ranks/);
      const box = await weak.boundingBox();
      assert.ok(box.y + box.height < LAPTOP.height);
    });
  });

  await t.test('plain words, with the definitions of the glossary', async () => {
    for (const name of NAMES) {
      await opened(browser, page(name), {}, async (tab) => {
        for (const part of await tab.locator('main > section:not(#tables)').all())
          assert.doesNotMatch(
            await part.textContent(),
            /gpu_clock|idle_other|pipeline_bubble|exposed_|\(z \d|not split, exposed|nobody for anything/,
          );
      });
    }
    // A row of the document may have several terms, and a longer text.
    const rows = [
      ...readFileSync(glossary, 'utf8')
        .replaceAll('’', "'")
        .matchAll(/^\| (.+?) \| (.+?) \|/gm),
    ].map(([, names, meaning]) => ({ terms: names.split(', '), meaning }));
    await opened(browser, straggling, {}, async (tab) => {
      const terms = await texts(tab, 'dl.terms dt'),
        meanings = await texts(tab, 'dl.terms dd');
      assert.ok(terms.length > 15);
      terms.forEach((term, k) => {
        const meaning = meanings[k].replaceAll('’', "'");
        assert.ok(
          rows.some((row) => row.terms.includes(term) && row.meaning.startsWith(meaning)),
          `docs/glossary.md: ${term} | ${meaning}`,
        );
      });
      await tab.locator('.figures .term', { hasText: 'noise floor' }).hover();
      assert.match(await text(tab, '#definition'), /99th percentile/);
      await tab.keyboard.press('Escape');
      assert.ok(!(await tab.locator('#definition').isVisible()));
      // The heads of tables have definitions too, also for the keyboard.
      await tab.locator('#partition th button', { hasText: 'waiting for it' }).focus();
      await tab.locator('#definition').waitFor();
      assert.match(await text(tab, '#definition'), /mean per waiting rank and step/);
    });
  });

  await t.test('culprits are on top of 64 ranks in every order', async () => {
    const culprit = String(reportOf('many').stragglers[0].ranks[0]);
    await opened(browser, page('many'), {}, async (tab) => {
      assert.equal((await column(tab, 'partition', 0))[0], culprit);
      for (const head of ['rank', 'compute']) {
        for (let k = 0; k < 2; ++k) {
          await tab.locator('#partition th button', { hasText: new RegExp(`^${head}$`) }).click();
          assert.equal((await column(tab, 'partition', 0))[0], culprit);
        }
      }
      assert.equal(await tab.locator('#partition tr.pinned .culprit').count(), 1);
    });
  });

  await t.test('collectives have members, and no bandwidth of tiny messages', async () => {
    await opened(browser, page('many'), {}, async (tab) => {
      const places = {};
      for (const name of ['group', 'members', 'operation', 'mean size', 'bus GB/s'])
        places[name] = await tab
          .locator('#collectives th button', { hasText: new RegExp(`^${name}$`) })
          .evaluate((b) => b.closest('th').cellIndex);
      const rows = await tab
        .locator('#collectives tbody tr')
        .evaluateAll((trs) => trs.map((tr) => [...tr.cells].map((c) => c.textContent)));
      const keys = rows.map((r) => [r[places.group], r[places.members], r[places.operation]].join());
      assert.equal(new Set(keys).size, rows.length, 'the members tell equal names apart');
      const tiny = rows.filter((r) => /^\d+ B$/.test(r[places['mean size']]));
      assert.ok(tiny.length > 0);
      for (const r of rows) assert.equal(r[places['bus GB/s']] === '–', tiny.includes(r));
      const canvas = tab.locator('#collectives figure canvas');
      await canvas.focus();
      await tab.keyboard.press('ArrowLeft');
      assert.match(
        await text(tab, '#collectives .readout'),
        /^\w+ of .+ \(ranks [\d, -]+.*\): [\d.]+ \w+, [\d.]+ GB\/s, \d+ instances?$/,
      );
    });
  });

  await t.test('bars of the waterfall are as long as their times', async () => {
    const { slowdown: s, stragglers, shared_losses: shared } = reportOf('straggling');
    await opened(browser, straggling, {}, async (tab) => {
      const width = async (kind, k = 0) => Number(await tab.locator(`#causes svg rect.${kind}`).nth(k).getAttribute('width'));
      const whole = (await width('ideal')) + (await width('cause'));
      assert.ok(Math.abs((await width('ideal')) / whole - s.ideal_step_ns / s.step_ns) < 0.01, 'to scale');
      const alike = shared.reduce((sum, loss) => sum + loss.lost_ns_per_step, 0);
      assert.ok(Math.abs((await width('alike')) / whole - alike / s.step_ns) < 0.01, 'losses of all ranks');
      assert.ok(
        Math.abs((await width('cause', 1)) / (await width('sum')) - stragglers[0].lost_ns_per_step / s.lost_ns_per_step) < 0.01,
        'differences',
      );
    });
  });

  await t.test('pictures have scales', async () => {
    await opened(browser, page('many'), {}, async (tab) => {
      assert.match(await tab.locator('#heat canvas.scale').getAttribute('aria-label'), /^colours from −.+ to .+ or more$/);
      assert.match(await tab.locator('#waiting canvas.scale').getAttribute('aria-label'), /^colours from 0 to .+s$/);
      await tab.locator('#heat select').selectOption('duration');
      assert.match(await tab.locator('#heat canvas.scale').getAttribute('aria-label'), /^colours from [\d.]+ ms to/);
    });
  });

  await t.test('names of kernels are short', async () => {
    const { outputFiles } = await require('esbuild').build({
      entryPoints: [join(modules, '../src/format.ts')],
      bundle: true,
      write: false,
      format: 'esm',
    });
    const { shortName } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
    for (const [name, short] of [
      [
        'void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)',
        'vectorized_elementwise_kernel',
      ],
      ['void (anonymous namespace)::softmax_warp_forward<float>(float*)', 'softmax_warp_forward'],
      ['ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)', 'AllReduce_Sum_f32_RING_LL'],
      ['ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)', 'AllReduce_RING_LL_Sum_float'],
      ['Memcpy HtoD (Pageable -> Device)', 'Memcpy HtoD'],
      ['ampere_sgemm_128x64_tn', 'ampere_sgemm_128x64_tn'],
    ])
      assert.equal(shortName(name), short);
  });

  await t.test('the peak of NVLink belongs to the model of the GPU', async () => {
    const { outputFiles } = await require('esbuild').build({
      entryPoints: [join(modules, '../src/nvlink.ts')],
      bundle: true,
      write: false,
      format: 'esm',
    });
    const { nvlinkPeak } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
    for (const [gpu, gbps] of [
      ['Tesla V100-SXM2-32GB', 150],
      ['NVIDIA A100-SXM4-80GB', 300],
      ['NVIDIA H100 80GB HBM3', 450],
      ['NVIDIA H200', 450],
      ['NVIDIA B200', 900],
      ['NVIDIA H100 PCIe', undefined],
      ['NVIDIA H100 NVL', undefined],
      ['NVIDIA A100-PCIE-40GB', undefined],
      [null, undefined],
    ])
      assert.equal(nvlinkPeak([gpu, gpu])?.gbps, gbps, gpu);
    assert.equal(nvlinkPeak(['NVIDIA H200', 'NVIDIA B200']), undefined);
  });

  await t.test('series show the GPUs and their queues', async () => {
    await opened(browser, page('model'), {}, async (tab) => {
      assert.deepEqual(await texts(tab, '#series h3'), ['Length of each step', 'GPU busy', 'Work launched and not started']);
    });
  });

  await t.test('memory and modules have pictures', async () => {
    await opened(browser, page('model'), {}, async (tab) => {
      assert.match(await tab.locator('#memory canvas').getAttribute('aria-label'), /peak 1, 400 MiB at 1\.00 ms/);
      assert.match(await text(tab, '#memory .peaks li'), /^400 MiB at 1\.00 ms: aten::layer0 300 MiB, aten::layer1 100 MiB$/);
      const rows = await texts(tab, '#modules .module');
      assert.match(rows[0], /^Net_0 4 calls16\.0 ms 100\.0%$/);
      assert.match(rows[1], /^Linear_1 4 calls10\.0 ms 62\.5%$/);
    });
    await opened(browser, straggling, {}, async (tab) => assert.equal(await tab.locator('#memory, #modules').count(), 0));
  });

  await t.test('the flame graph has stacks, a search and a comparison with the mean', async () => {
    await opened(browser, page('model'), {}, async (tab) => {
      assert.deepEqual(await texts(tab, '#flame option'), ['time on the GPU', 'time of host threads']);
      assert.equal(await text(tab, '#flame .readout'), '16.0 ms in all');
      await tab.locator('#flame canvas').focus();
      await tab.keyboard.press('ArrowRight');
      assert.equal(await text(tab, '#flame .readout'), 'ProfilerStep: 16.0 ms, 100.0%');
      for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight']) await tab.keyboard.press(key);
      assert.equal(await text(tab, '#flame .readout'), 'nn.Module: Linear_1: 10.0 ms, 62.5%');
      // The widened frame has the whole width, with its callers above it.
      await tab.keyboard.press('Enter');
      const box = await tab.locator('#flame canvas').boundingBox();
      await tab.mouse.move(box.x + 4, box.y + 2 * 20 + 8);
      assert.match(await text(tab, '#flame .readout'), /^nn\.Module: Linear_1: /);
      await tab.mouse.move(box.x + 4, box.y + 8);
      assert.match(await text(tab, '#flame .readout'), /^ProfilerStep: /);
      await tab.locator('#flame input[type=search]').fill('GEMM');
      assert.equal(await text(tab, '#flame .readout'), '2 frames match “gemm”: 16.0 ms, 100.0% of the picture');
      await tab.locator('#flame input[type=search]').fill('');
      await tab.locator('#flame select').selectOption('host');
      assert.equal(await text(tab, '#flame .readout'), '40.0 ms in all');
    });
    // The culprit is shown first, compared with the mean of all ranks.
    await opened(browser, straggling, {}, async (tab) => {
      const { ranks, stragglers } = reportOf('straggling');
      const culprit = stragglers[0].ranks[0];
      assert.equal(await tab.locator('#flame select').nth(1).inputValue(), String(culprit));
      assert.ok(await tab.locator('#flame input[type=checkbox]').isChecked());
      await tab.locator('#flame canvas').focus();
      await tab.keyboard.press('ArrowRight');
      assert.match(await text(tab, '#flame .readout'), new RegExp(`(more|less) than the mean of ${ranks.length} ranks$`));
      await tab.locator('#flame select').nth(1).selectOption('-1');
      assert.ok(await tab.locator('#flame input[type=checkbox]').isDisabled());
    });
  });

  await t.test('prints on few pages, none of them empty', async () => {
    for (const name of NAMES) {
      for (const colorScheme of ['light', 'dark']) {
        await opened(browser, page(name), { colorScheme }, async (tab) => {
          const pdf = await tab.pdf({
            path: join(out, `${name}_${colorScheme}.pdf`),
            preferCSSPageSize: true,
            printBackground: true,
          });
          const texts = textsOfPages(pdf);
          console.log(`${name}, ${colorScheme}: texts by page ${texts.join(' ')}`);
          assert.ok(texts.length >= 3 && texts.length <= MOST_PRINTED_PAGES, `${name}: ${texts.length} pages`);
          assert.ok(Math.min(...texts) >= 2, `${name}: texts by page ${texts.join(' ')}`);
          // The page looks as before.
          assert.equal(await tab.evaluate(() => document.documentElement.dataset.theme), colorScheme);
          assert.equal(await tab.evaluate(() => document.documentElement.dataset.printing), undefined);
        });
      }
    }
  });

  await t.test('screenshots', async () => {
    for (const name of NAMES) {
      for (const [look, options] of [
        ['light', {}],
        ['dark', { colorScheme: 'dark', viewport: LAPTOP }],
        ['wide', { viewport: WIDE }],
        ['phone', { viewport: PHONE, deviceScaleFactor: 2, hasTouch: true, isMobile: true }],
      ]) {
        await opened(browser, page(name), options, async (tab) => {
          await tab.waitForTimeout(300);
          await tab.screenshot({ path: join(out, `${name}_${look}.png`) });
          assert.ok(statSync(join(out, `${name}_${look}.png`)).size > 10_000);
          if (name !== 'straggling' && look !== 'light') return;
          // The page draws only visible parts.
          await tab.setViewportSize({ ...tab.viewportSize(), height: 8000 });
          await tab.waitForTimeout(300);
          await tab.locator('main').screenshot({ path: join(out, `${name}_${look}_whole.png`) });
        });
      }
    }
  });

  await t.test('names with markup are shown as text', async () => {
    const file = page('hostile');
    writeFileSync(file, execFileSync(largePage, ['--ranks', '8', '--steps', '6', '--hostile'], { maxBuffer: 1 << 28 }));
    assert.ok(!readFileSync(file, 'utf8').includes('stolen'), 'no name stands in the file as it is');
    await opened(browser, file, {}, async (tab) => {
      for (const s of await tab.locator('summary').all()) await s.click();
      assert.equal(await tab.evaluate(() => window.stolen), undefined);
      assert.equal(await tab.locator('img, iframe, script[src]').count(), 0);
      assert.ok((await tab.locator('body').innerText()).includes('</script><script>window.stolen=1</script>'));
    });
  });

  await t.test('1,024 ranks by 100 steps open in two seconds and respond in 100 ms', async () => {
    const file = page('large');
    writeFileSync(file, execFileSync(largePage, ['--ranks', '1024', '--steps', '100'], { maxBuffer: 1 << 28 }));
    // The best of three counts, because builds and other tests may use the machine.
    const times = [];
    for (let k = 0; k < 3; ++k) await opened(browser, file, {}, async (tab, ready) => times.push(ready));
    console.log(`1,024 ranks: ${statSync(file).size} bytes, ready after ${times.join(', ')} ms`);
    assert.ok(Math.min(...times) < 2000, `${times} ms`);
    await opened(browser, file, {}, async (tab) => {
      // Returns the time from an event to the frame that shows its effect.
      const answer = (act) =>
        tab.evaluate(
          (source) =>
            new Promise((done) => {
              const began = performance.now();
              new Function(source)();
              requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
            }),
          act,
        );
      const acts = {
        heat: `const c = document.querySelector('#heat .picture canvas'), b = c.getBoundingClientRect(); c.dispatchEvent(new MouseEvent('click', { clientX: b.left + 300, clientY: b.top + 200 }))`,
        sort: `document.querySelectorAll('#partition th button')[4].click()`,
        search: `const i = document.querySelector('#partition input'); i.value = '77'; i.dispatchEvent(new Event('input'))`,
      };
      for (const [name, act] of Object.entries(acts)) {
        const times = [];
        for (let k = 0; k < 5; ++k) times.push(Math.round(await answer(act)));
        console.log(`${name}: answered after ${times.join(', ')} ms`);
        assert.ok(Math.min(...times) < 100, `${name}: ${times} ms`);
      }
      // Sums of hosts become means per rank, as the mean of the causer is.
      assert.match(await text(tab, '#waiting .readout'), /^n\d+ waited 9\.00 ms per step for n0 \(mean of its ranks\)$/);
      assert.equal((await column(tab, 'waiting', 2))[0], '9.00 ms');
      // The picture of all ranks fits on a sheet.
      const pages = textsOfPages(await tab.pdf({ preferCSSPageSize: true, printBackground: true }));
      assert.ok(pages.length <= MOST_PRINTED_PAGES && Math.min(...pages) >= 2, `texts by page ${pages.join(' ')}`);
      // Invisible rows are not in the document.
      await tab.locator('#partition input').fill('');
      assert.ok((await tab.locator('#partition tbody tr').count()) < 200);
      assert.match(await text(tab, '#partition .count'), /^1024 rows/);
      await tab.locator('#partition .scroll').evaluate((s) => s.scrollTo(0, s.scrollHeight));
      await tab.waitForTimeout(200);
      assert.equal((await column(tab, 'partition', 0)).filter(Boolean).length > 5, true);
      await tab.screenshot({ path: join(out, 'large.png') });
    });
  });
});
