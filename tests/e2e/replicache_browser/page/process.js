// Replicache asks Node's `process` whether this is production; a bundler would put the answer in its place.
Object.assign(globalThis, { process: { env: { NODE_ENV: "production" } } });
