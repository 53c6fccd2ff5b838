// Light or dark. Before anything is painted: what was chosen, or what the system says, so that no page flashes white.
{
  const CHOSEN = "stratalog scheme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");
  const show = () => (document.documentElement.dataset.scheme = localStorage.getItem(CHOSEN) ?? system());
  dark.addEventListener("change", show);
  addEventListener("storage", show);
  addEventListener("click", ({ target }) => {
    if (!target.closest?.("#scheme")) return;
    const other = document.documentElement.dataset.scheme === "dark" ? "light" : "dark";
    if (other === system()) localStorage.removeItem(CHOSEN);
    else localStorage.setItem(CHOSEN, other);
    show();
  });
  show();
}
