// The same request for a shell and for Python. The key is never written into them: they take it from the environment.

const MOST_NAMES = 8;

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The name of a part of a form, as curl reads it.
const part = (name) => shell(`image=@"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`);

// JSON's strings are Python's, but for lone surrogates, which no file's name has.
const python = (text) => JSON.stringify(text);

export function curlLine(url, names, keyed) {
  const key = keyed ? '-H "Authorization: Bearer $CONVOY_KEY" ' : "";
  if (names.length === 1) return `curl ${key}--data-binary ${shell(`@${names[0]}`)} ${shell(url)}`;
  const more = names.length > MOST_NAMES ? ` # and ${names.length - MOST_NAMES} more` : "";
  return `curl ${key}${names.slice(0, MOST_NAMES).map((name) => `-F ${part(name)} `).join("")}${shell(url)}${more}`;
}

export function pythonLines(url, names, keyed) {
  const more = names.length > MOST_NAMES ? ` # and ${names.length - MOST_NAMES} more` : "";
  return [
    `import json${keyed ? ", os" : ""}, urllib.request`,
    "",
    `for name in [${names.slice(0, MOST_NAMES).map(python).join(", ")}]:${more}`,
    `    with open(name, "rb") as file:`,
    `        request = urllib.request.Request(${python(url)}, data=file.read())`,
    ...(keyed ? [`    request.add_header("Authorization", "Bearer " + os.environ["CONVOY_KEY"])`] : []),
    `    with urllib.request.urlopen(request) as answer:`,
    `        print(name, json.dumps(json.load(answer)["results"][0]))`,
  ].join("\n");
}
