// Theme, run picker and keys. THEME is "", "light" or "dark".
if (THEME) document.documentElement.dataset.theme = THEME;
function switchTheme() {
  const dark = THEME ? THEME === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.cookie = `rods_theme=${dark ? "light" : "dark"}; path=/; max-age=31536000; SameSite=Strict`;
  location.reload();
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-button]")) switchTheme();
});
document.addEventListener("change", (event) => {
  if (event.target.dataset.pick !== "run") return;
  const address = new URL(location);
  const kept = ["/", "/boundary", "/trajectories", "/synthesis"].includes(address.pathname);
  location.href = `${kept ? address.pathname : "/"}?run=${encodeURIComponent(event.target.value)}`;
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const link = { j: "a[rel=next]", k: "a[rel=prev]" }[event.key];
  if (link) document.querySelector(link)?.click();
  else if (event.key === "t") switchTheme();
  else if (event.key === "/") { event.preventDefault(); document.querySelector("input[type=search]")?.focus(); }
});
