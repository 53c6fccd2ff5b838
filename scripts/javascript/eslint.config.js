// The rules of ESLint for all our scripts. Paths start at the repository's root. tests/web/test_style.py checks that
// every script is in a folder that scripts/javascript/tsconfig.json includes.

import js from "@eslint/js";
import globals from "globals";

const ENGINE = { o_spreadsheet: "readonly", owl: "readonly" };
const NODE = ["scripts/javascript/**/*.js", "tests/web/*.js", "tests/e2e/**/*.mjs", "apps/*/tests/**/*.mjs"];
// These are classic scripts: the worker and the theme of pages, and the scripts that the engine's V8 in Python runs.
const CLASSIC = [
  "src/stratalog/web/theme/*.js",
  "apps/sheet/src/stratalog_sheet/javascript/*.js",
  "apps/sheet/src/stratalog_sheet/web/worker.js",
  "tests/e2e/replicache_browser/page/process.js",
];

export default [
  { ignores: ["**/node_modules/", ".venv/", "**/build/", "data/", "dist/", "htmlcov/"] },
  js.configs.recommended,
  {
    files: ["**/*.js", "**/*.mjs"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: { ...globals.browser, ...ENGINE } },
    linterOptions: { reportUnusedDisableDirectives: "error", reportUnusedInlineConfigs: "error" },
    rules: {
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-implicit-globals": "error",
      "no-unused-vars": ["error", { ignoreRestSiblings: true, varsIgnorePattern: "^_$" }],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  { files: CLASSIC, languageOptions: { sourceType: "script" } },
  { files: ["**/worker.js"], languageOptions: { globals: globals.serviceworker } },
  { files: NODE, languageOptions: { globals: globals.node } },
];
