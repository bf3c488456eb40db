// Runs before the first paint, so that a dark page never flashes white. A file of its own: the content security policy allows no inline script.
(() => {
  let scheme = null;
  try {
    scheme = localStorage.getItem("weir-color-scheme");
  } catch {
    // Storage can be blocked; the system's scheme is then followed.
  }
  if (scheme !== "light" && scheme !== "dark") {
    scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
})();
