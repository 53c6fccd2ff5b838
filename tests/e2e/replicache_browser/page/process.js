// Replicache reads `process.env.NODE_ENV`. A bundler would replace it by its value, but this page has no bundler.
Object.assign(globalThis, { process: { env: { NODE_ENV: "production" } } });
