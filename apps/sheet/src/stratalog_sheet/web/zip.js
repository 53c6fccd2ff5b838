// Zip: files as one uncompressed archive, so that a page can make a workbook file without the server.

const encoder = new TextEncoder();
const UTF8 = 0x0800;
const JAN_1_1980 = 0x0021;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** Return the archive of files, each with a path and a text as content. */
export function zip(files) {
  const entries = files.map(({ path, content }) => ({ name: encoder.encode(path), body: encoder.encode(content) }));
  const parts = [];
  const directory = [];
  let at = 0;
  for (const { name, body } of entries) {
    const facts = [[2, 20], [2, UTF8], [2, 0], [2, 0], [2, JAN_1_1980]];
    facts.push([4, crc(body)], [4, body.length], [4, body.length], [2, name.length], [2, 0]);
    const head = packed([[4, 0x04034b50], ...facts]);
    parts.push(head, name, body);
    directory.push(packed([[4, 0x02014b50], [2, 20], ...facts, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]]), name);
    at += head.length + name.length + body.length;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const count = entries.length;
  const end = packed([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, at], [2, 0]]);
  return new Blob([...parts, ...directory, end]);
}

/** Pack each [size, value] pair: the value as an integer of `size` bytes, the lowest byte first. */
const packed = (numbers) =>
  Uint8Array.from(numbers.flatMap(([size, value]) => Array.from({ length: size }, (_, byte) => value >>> (8 * byte))));

function crc(bytes) {
  let held = -1;
  for (const byte of bytes) held = TABLE[(held ^ byte) & 255] ^ (held >>> 8);
  return ~held >>> 0;
}
