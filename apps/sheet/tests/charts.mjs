// Hierarchical charts have three groups and five values. `node charts.mjs ENGINE_FOLDER PAGE_FOLDER` prints the groups
// that each chart shows.
import { made } from "./lines.mjs";

const sheetId = "sheet1";
const cells = { A1: "a", A2: "b", A3: "c", B1: "5", B2: "4", B3: "3", B4: "2", B5: "1" };
const data = { version: "19.3.2", revisionId: "start", sheets: [{ id: sheetId, cells }] };
const dataSource = { type: "range", dataSets: [{ dataRange: "A1:A3", dataSetId: "0" }], labelRange: "B1:B5" };
const { model } = made(data, "mine");
const groups = {};
for (const type of ["sunburst", "treemap"]) {
  const figure = { figureId: type, col: 3, row: 3, offset: { x: 0, y: 0 }, size: { width: 300, height: 200 } };
  const definition = { type, title: { text: type }, dataSource, dataSetStyles: {}, legendPosition: "none" };
  model.dispatch("CREATE_CHART", { sheetId, chartId: type, ...figure, definition });
  const [{ groupColors }] = model.getters.getChartRuntime(type).chartJsConfig.data.datasets;
  groups[type] = groupColors.map(({ label }) => label);
}
console.log(JSON.stringify(groups));
process.exit(0);
