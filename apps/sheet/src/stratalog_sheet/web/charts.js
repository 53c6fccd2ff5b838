// Charts: makes the engine draw charts for which it fails: docs/concepts/sheet-engine-reports.md. The page and the
// server's engines load this file, because the server also draws the charts that it exports. The server's engines load
// this file as a script, so it has no exports.
{
  const { chartTypeRegistry } = globalThis.o_spreadsheet.registries;

  /** Leave out the values that have no group, because they are below the last row of groups. */
  function withoutSurplus({ labelValues, dataSetsValues }) {
    const count = Math.max(0, ...dataSetsValues.map(({ data }) => data.length));
    return { dataSetsValues, labelValues: labelValues.slice(0, count) };
  }

  for (const type of ["sunburst", "treemap"]) {
    const chart = chartTypeRegistry.get(type);
    const getRuntime = (getters, definition, { extractHierarchicalData: extract }, ...more) =>
      chart.getRuntime(getters, definition, { extractHierarchicalData: () => withoutSurplus(extract()) }, ...more);
    chartTypeRegistry.replace(type, { ...chart, getRuntime });
  }
}
