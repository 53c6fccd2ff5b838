// Before anything is painted: the scheme that was chosen, so that no page flashes white.
{
  const chosen = localStorage.getItem("stratalog scheme");
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.scheme = chosen ?? system;
}
