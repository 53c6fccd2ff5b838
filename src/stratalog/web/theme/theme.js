// The theme: light or dark, by the user's choice, or else by the system's setting. This is a classic script in the
// head, so that it runs before the browser paints. A click on `#scheme` changes the theme of all pages of this server
// in this browser. The window gets the event “stratalog-scheme” after each change.
{
  const CHOSEN = "stratalog scheme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");

  const describe = () => {
    const label = root.dataset.scheme === "dark" ? "Switch to light" : "Switch to dark";
    document.querySelector("#scheme")?.setAttribute("title", label);
  };
  const show = () => {
    root.dataset.scheme = localStorage.getItem(CHOSEN) ?? system();
    describe();
    dispatchEvent(new Event("stratalog-scheme"));
  };
  const toggle = () => {
    const other = root.dataset.scheme === "dark" ? "light" : "dark";
    // If the user's choice equals the system's setting, forget the choice, so that the page follows the system again.
    if (other === system()) localStorage.removeItem(CHOSEN);
    else localStorage.setItem(CHOSEN, other);
    show();
  };

  dark.addEventListener("change", show);
  addEventListener("storage", ({ key }) => (key === null || key === CHOSEN) && show());
  addEventListener("click", ({ target }) => target instanceof Element && target.closest("#scheme") && toggle());
  addEventListener("DOMContentLoaded", describe);
  show();
}
