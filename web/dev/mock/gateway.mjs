/** A gateway in front of the made-up control plane: the smallest that the browser tests can be tried on. */

/** Answers one request: counts it for each `*` limit of the rules of that very path, and notes who was refused. */
export function pass(world, request, response, path) {
  const subject = `user:${request.headers["x-user-id"] ?? "nobody"}`;
  const rules = world.lists.rules.filter(
    (rule) => rule.match?.path === path && rule.limits["*"]?.limit < 50 && rule.mode === "enforce",
  );
  response.setHeader("RateLimit-Policy", rules.map((rule) => `"${rule.name}"`).join(", "));
  world.counters ??= new Map();
  world.denied ??= new Map();
  for (const rule of rules) {
    const key = `${rule.name} ${subject}`;
    const used = (world.counters.get(key) ?? 0) + 1;
    world.counters.set(key, used);
    if (used > rule.limits["*"].limit) {
      const row = world.denied.get(subject) ?? {
        subject,
        tier: "free",
        rules: [rule.name],
        denied: 0,
        allowed: rule.limits["*"].limit,
      };
      world.denied.set(subject, { ...row, denied: row.denied + 1 });
      response.writeHead(429, { "Retry-After": "60", "Content-Type": "application/problem+json" });
      response.end(JSON.stringify({ title: "Too many requests", status: 429, violated: [rule.name] }));
      return;
    }
  }
  response.end("ok");
}
