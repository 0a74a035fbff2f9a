// Paths of samples: each name is one segment; browsers would resolve the segments "." and "..".
const dots = (name) => name === "." || name === ".." || name === "";

export function sampleUrl(dataset, shard, key) {
  const start = `/s/${encodeURIComponent(dataset)}/`;
  if (dots(shard) || dots(key) || !isWellFormed(shard + key)) return `${start}?${new URLSearchParams({ shard, key })}`;
  return `${start}${encodeURIComponent(shard)}/${encodeURIComponent(key)}`;
}

function isWellFormed(text) {
  try { encodeURIComponent(text); return true; } catch { return false; }
}

export function parseSampleUrl(location) {
  const [, first, dataset, ...rest] = location.pathname.split("/");
  if (first !== "s") return null;
  const query = new URLSearchParams(location.search);
  const names = rest.map(decodeURIComponent);
  return { dataset: decodeURIComponent(dataset), shard: query.get("shard") ?? names[0] ?? "",
    key: query.get("key") ?? names.slice(1).join("/") };
}
