// as_typescript.mjs TYPES DASHBOARD FOLDER: writes FOLDER/dashboard.ts, which compiles only if DASHBOARD, a JSON file,
// is a dashboard by TYPES, a declaration file of @grafana/schema. TypeScript refuses missing and unknown members.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [types, dashboard, folder] = process.argv.slice(2);
// JSON has the values of enumerations, so that each becomes a union of its values.
const values = new Map();
const declarations = readFileSync(types, 'utf8')
  .replace(/export declare enum (\w+) \{([^}]*)\}/g, (_, name, body) => {
    const members = [...body.matchAll(/(\w+) = ("[^"]*"|-?\d+)/g)];
    for (const [, member, value] of members) values.set(`${name}.${member}`, value);
    return `export type ${name} = ${members.map((m) => m[2]).join(' | ')};`;
  })
  .replace(/\b\w+\.\w+\b/g, (text) => values.get(text) ?? text);
if (values.size === 0) throw new Error(`${types} has no enumerations: has its form changed?`);
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, 'types.ts'), declarations);
writeFileSync(
  join(folder, 'dashboard.ts'),
  `import type { Dashboard } from './types';\nexport const dashboard: Dashboard = ${readFileSync(dashboard, 'utf8')};\n`,
);
