// Replicache reads `process.env.NODE_ENV`. A bundler would replace this expression, but the page has no bundler.
Object.assign(globalThis, { process: { env: { NODE_ENV: "production" } } });
