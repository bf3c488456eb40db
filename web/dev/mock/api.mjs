/** The made-up control plane's answers, by the REST contract: paging, ETags, problem documents, a few validations. */
import { denials, summary, timeseries, topSubjects } from "./traffic.mjs";
import { meta } from "./world.mjs";

class Refusal extends Error {
  constructor(status, title, extra = {}) {
    super(title);
    this.status = status;
    this.body = { type: `urn:weir:problem:${status}`, title, status, detail: title, ...extra };
  }
}

/** Answers one call; throws a `Refusal` with `status` and `body` for a problem. */
export function answer(world, { method, path, query, body, headers }) {
  const [, , kind, name, action] = path.split("/").map(decodeURIComponent);
  if (kind === "session") return session(world, method, body);
  if (!world.signedIn) throw new Refusal(401, "Credentials needed");
  if (world.scenario === "down")
    throw new Refusal(503, "Not available now", {
      detail: "the database cannot be reached; nothing was changed. Agents go on with the rules they have",
    });
  if (kind === "analytics") return { timeseries, summary, "top-subjects": topSubjects }[name](world, query);
  if (kind === "denials") return denials(query);
  if (kind === "lint")
    return {
      warnings:
        world.scenario === "empty"
          ? []
          : [
              {
                pointer: "/rules/1",
                detail: "the broader rule per-user has a lower limit for tier free in some windows",
              },
            ],
    };
  if (kind === "export") return { domain: "default", tiers: world.lists.tiers, rules: world.lists.rules };
  if (kind === "agents") return agentsCall(world, method, name);
  if (kind === "audit")
    return page(world.audit.filter((e) => ["kind", "name"].every((f) => !query.get(f) || e[f] === query.get(f))));
  if (kind === "revisions") return revisionsCall(world, name, action);
  if (kind === "sign-in-links")
    return {
      url: "http://127.0.0.1:7070/sign-in#code=made-up",
      expires_at: new Date(Date.now() + 600_000).toISOString(),
    };
  if (world.lists[kind]) return resource(world, kind, { method, name, query, body, headers });
  throw new Refusal(404, "There is no such thing");
}

function session(world, method, body) {
  const who = { name: "ada", role: world.role ?? "admin" };
  if (method === "POST") {
    const known = body?.code === "made-up" ? !world.codeUsed : body?.token === "weir_made_up";
    if (!known) throw new Refusal(401, "Credentials needed");
    if (body.code) world.codeUsed = true;
    world.signedIn = true;
  }
  if (method === "DELETE") {
    world.signedIn = false;
    return undefined;
  }
  if (!world.signedIn) throw new Refusal(401, "Credentials needed");
  return who;
}

function agentsCall(world, method, name) {
  if (method === "DELETE") world.agents = world.agents.filter((a) => a.name !== name);
  return method === "DELETE" ? undefined : page(world.agents);
}

function revisionsCall(world, name, action) {
  if (!name) return page(world.revisions);
  const found = world.revisions.find((r) => r.revision === Number(name));
  if (!found) throw new Refusal(404, "There is no such revision");
  if (action === "rollback") return publish(world, `roll back to revision ${name}`, found);
  const names = (state) => world.agents.filter((a) => a.domains[0].state === state).map((a) => a.name);
  const refused = world.agents
    .filter((a) => a.domains[0].state === "refused")
    .map((a) => ({ agent: a.name, errors: a.domains[0].errors }));
  return {
    ...found,
    agents: { current: names("current"), pending: names("pending"), refused, offline: names("offline") },
  };
}

function resource(world, kind, { method, name, query, body, headers }) {
  const list = world.lists[kind];
  const key = kind === "tokens" ? "id" : "name";
  const old = list.find((item) => item[key] === name);
  const dry = query.get("validate_only") === "true";
  if (method === "GET" && !name) return page(list);
  if (method === "POST") {
    check(kind, body);
    if (list.some((item) => kind !== "tokens" && item.name === body.name))
      throw new Refusal(409, "In conflict with what is there");
    if (kind === "tokens") return createToken(list, body);
    return dry ? body : store(world, kind, undefined, body);
  }
  if (!old) throw new Refusal(404, "There is no such thing");
  if (method === "GET") return old;
  if (kind !== "tokens" && headers["if-match"] !== "*" && headers["if-match"] !== old.meta.etag)
    throw new Refusal(412, "It has changed");
  if (method === "PUT") {
    check(kind, body);
    return dry ? body : store(world, kind, old, body);
  }
  const users =
    kind === "tiers"
      ? world.lists.rules.filter((r) => r.limits[name]).map((r) => ({ kind: "rule", domain: "default", name: r.name }))
      : [];
  if (users.length > 0) throw new Refusal(409, "Still in use", { used_by: users });
  world.lists[kind] = list.filter((item) => item !== old);
  publish(world, `delete ${kind.slice(0, -1)} ${name}`);
  return undefined;
}

function createToken(list, body) {
  const token = {
    id: `t${list.length + 1}`,
    role: "viewer",
    domains: null,
    expires_at: null,
    last_used_at: null,
    created_at: new Date().toISOString(),
    ...body,
  };
  list.push(token);
  return { ...token, secret: "weir_4fK2pQ9sX7vB1nM8cR5tY3wZ6aD0gH" };
}

function check(kind, body) {
  const errors = [];
  if (!/^[A-Za-z0-9_.:-]{1,64}$/.test(body?.name ?? ""))
    errors.push({ pointer: "/name", detail: "must be 1 to 64 letters, digits, or _ . : -" });
  for (const [tier, limit] of Object.entries(kind === "rules" ? (body.limits ?? {}) : {})) {
    if (limit.unlimited) continue;
    const at = `/limits/${tier.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (!Number.isInteger(limit.limit))
      errors.push({ pointer: `${at}/limit`, detail: "must be a whole number from 0 to 9007199254740991" });
    if (!/^\d+(ms|s|m|h|d)$/.test(limit.window ?? ""))
      errors.push({
        pointer: `${at}/window`,
        detail: 'must be a whole number with a unit (ms, s, m, h or d), such as "60s" or "1h"',
      });
  }
  if (kind === "rules" && Object.keys(body.limits ?? {}).length === 0)
    errors.push({ pointer: "/limits", detail: "must have at least one limit" });
  if (kind === "rules" && body.match?.path && !body.match.path.startsWith("/"))
    errors.push({ pointer: "/match/path", detail: 'must start with "/"' });
  if (errors.length > 0) throw new Refusal(400, "The request has mistakes", { errors });
}

function store(world, kind, old, body) {
  const revision = publish(world, `${old ? "update" : "create"} ${kind.slice(0, -1)} ${body.name}`).revision;
  const { password, ...rest } = body;
  const item = {
    ...rest,
    ...(kind === "shards" ? { has_password: Boolean(password) || old?.has_password } : {}),
    meta: meta(revision, "ada", 0),
  };
  world.lists[kind] = old ? world.lists[kind].map((x) => (x === old ? item : x)) : [...world.lists[kind], item];
  return item;
}

function publish(world, summaryText) {
  world.revision += 1;
  const revision = {
    revision: world.revision,
    domain: "default",
    hash: "ab".repeat(32),
    created_at: new Date().toISOString(),
    author: "ada",
    summary: summaryText,
    changes: [],
  };
  world.revisions.unshift(revision);
  for (const agent of world.agents)
    for (const set of agent.domains)
      if (set.state === "current") Object.assign(set, { revision: world.revision, latest: world.revision });
  world.lastRevision = world.revision;
  return revision;
}

function page(items) {
  return { items, next_page_token: "" };
}
