/** `npm run dev:mock`: the built dashboard in front of the made-up control plane, on 127.0.0.1:7070 (PORT, SCENARIO). */
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { answer } from "./api.mjs";
import { pass } from "./gateway.mjs";
import { makeWorld } from "./world.mjs";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Listens on a port (0: a free one) and resolves to `{ url, world, close }`. */
export function serve(scenario, port = 0) {
  const world = makeWorld(scenario);
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    if (url.pathname.startsWith("/v1/")) respond(world, request, response, url);
    else if (url.pathname.startsWith("/gateway/"))
      pass(world, request, response, url.pathname.slice("/gateway".length));
    else file(response, url.pathname);
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => {
      resolve({ url: `http://127.0.0.1:${server.address().port}`, world, close: () => server.close() });
    });
  });
}

async function respond(world, request, response, url) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const before = world.revision;
  try {
    const text = Buffer.concat(chunks).toString();
    const body = text === "" ? undefined : JSON.parse(text);
    const result = answer(world, {
      method: request.method,
      path: url.pathname,
      query: url.searchParams,
      body,
      headers: request.headers,
    });
    if (world.revision !== before) response.setHeader("Weir-Revision", String(world.revision));
    response.writeHead(result === undefined ? 204 : 200, { "Content-Type": "application/json" });
    response.end(result === undefined ? undefined : JSON.stringify(result));
  } catch (refusal) {
    if (!refusal.body) console.error(refusal);
    response.writeHead(refusal.status ?? 500, { "Content-Type": "application/problem+json" });
    response.end(JSON.stringify(refusal.body ?? { title: String(refusal), status: 500 }));
  }
}

function file(response, path) {
  const wanted = join(DIST, normalize(path));
  const found =
    wanted.startsWith(DIST) && existsSync(wanted) && statSync(wanted).isFile() ? wanted : join(DIST, "index.html");
  response.writeHead(200, {
    "Content-Type": TYPES[extname(found)] ?? "application/octet-stream",
    "Content-Security-Policy": POLICY,
  });
  createReadStream(found).pipe(response);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve(process.env.SCENARIO ?? "busy", Number(process.env.PORT ?? 7070));
  console.log(`${url}/sign-in#code=made-up`);
}
