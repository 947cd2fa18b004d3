// Renders /openapi.json. Texts only ever become text nodes: nothing from the
// document is read as HTML.
"use strict";

const methods = ["get", "post", "put", "patch", "delete"];

// h makes an element; children are elements, texts, or lists of them.
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

const linesType = "application/x-ndjson";

// quoted makes one word of a text for a shell; an apostrophe would end it.
const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

const paragraphs = (text) => (text || "").split("\n\n").filter(Boolean).map((part) => h("p", {}, part));

class Page {
  constructor(description) {
    this.description = description;
  }

  resolve(schema) {
    if (!schema || !schema.$ref) return schema || {};
    return schema.$ref.slice(2).split("/").reduce((at, step) => at[step], this.description);
  }

  nameOf(schema) {
    return schema.$ref ? schema.$ref.split("/").pop() : "";
  }

  // typeText says what a schema takes, in a few words.
  typeText(schema) {
    if (schema.$ref) return this.nameOf(schema);
    const names = [schema.type].flat().filter(Boolean);
    let text = names.join(" or ") || "any";
    if (names.includes("array") && schema.items) text = text.replace("array", "array of " + this.typeText(schema.items));
    if (typeof schema.additionalProperties === "object") text = text.replace("object", "object of " + this.typeText(schema.additionalProperties));
    return schema.format ? text + " (" + schema.format + ")" : text;
  }

  // rules lists what else holds for a value.
  rules(schema) {
    if (schema.items && !schema.items.$ref && schema.items.enum) return ["any of " + schema.items.enum.join(", ") + "; several by commas"];
    const out = [];
    const add = (key, label) => { if (schema[key] !== undefined) out.push(label + " " + JSON.stringify(schema[key])); };
    if (schema.enum) out.push("one of " + schema.enum.join(", "));
    if (schema["x-extensible-enum"]) out.push("such as " + schema["x-extensible-enum"].join(", "));
    add("default", "default");
    add("minimum", "at least");
    add("maximum", "at most");
    add("minLength", "least length");
    add("maxLength", "greatest length");
    add("minItems", "least items");
    add("maxItems", "most items");
    add("maxProperties", "most members");
    if (schema.pattern) out.push(h("code", {}, schema.pattern));
    return out.flatMap((rule, i) => (i ? ["; ", rule] : [rule]));
  }

  row(name, schema, required, description) {
    return h("tr", {},
      h("td", {}, h("code", {}, name), required ? h("span", { class: "need", title: "required" }, " *") : undefined),
      h("td", {}, this.typeText(schema)),
      h("td", {}, description || schema.description || "", " ", h("span", { class: "soft" }, this.rules(schema))));
  }

  table(rows) {
    return h("table", {}, h("thead", {}, h("tr", {}, ["Name", "Type", "Meaning"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows));
  }

  // members shows an object's members; objects inside it unfold.
  members(schema, depth = 0) {
    const target = this.resolve(schema);
    if (target.type !== "object" || !target.properties) return [h("p", { class: "soft" }, target.description || this.typeText(schema))];
    const required = target.required || [];
    const rows = Object.entries(target.properties).map(([name, member]) => this.row(name, member, required.includes(name)));
    const inner = Object.entries(target.properties).flatMap(([name, member]) => {
      const of = member.items || member;
      return of.$ref && depth < 3 ? [h("details", {}, h("summary", {}, name + ": " + this.nameOf(of)), this.members(of, depth + 1))] : [];
    });
    return [this.table(rows), ...inner];
  }

  example(schema, depth = 0) {
    const target = this.resolve(schema);
    if (target.examples) return target.examples[0];
    if (target.properties && depth < 5) {
      return Object.fromEntries(Object.entries(target.properties).map(([name, member]) => [name, this.example(member, depth + 1)]));
    }
    if ([target.type].flat().includes("array")) return target.items ? [this.example(target.items, depth + 1)] : [];
    return [target.type].flat().includes("null") ? null : {};
  }

  // curl shows the operation as a command, and once more for a body of lines.
  curl(path, method, operation) {
    const server = (this.description.servers || [{ url: location.origin }])[0].url;
    const lines = ["curl -sS " + (method === "get" ? "" : "-X " + method.toUpperCase() + " ") + quoted(server + path)];
    if (!operation.security) lines.push("-H \"Authorization: Bearer $POSTHORN_KEY\"");
    const join = (more) => [...lines, ...more].join(" \\\n  ");
    const content = (operation.requestBody || {}).content || {};
    const [media, first] = Object.entries(content)[0] || [];
    if (!first || !first.example) return [join([])];
    const body = JSON.stringify(first.example);
    const commands = [join(["-H 'Content-Type: " + media + "'", "-d " + quoted(body)])];
    if (content[linesType]) {
      // --data-binary: -d would take the line breaks out.
      commands.push(join(["-H 'Content-Type: " + linesType + "'", "--data-binary @- <<'END'"]) + "\n" + body + "\n" + body + "\nEND");
    }
    return commands;
  }

  // responses shows successes one by one, and refusals by their codes.
  responses(operation) {
    const all = Object.entries(operation.responses);
    const refusals = all.flatMap(([status, response]) => (response["x-codes"] || []).map((code) => h("li", {}, status, " ", h("a", { href: "#" + code }, code))));
    return [
      ...all.filter(([, response]) => !response["x-codes"]).map(([status, response]) => this.success(status, response)),
      refusals.length ? h("p", { class: "soft" }, "Refusals") : undefined,
      refusals.length ? h("ul", { class: "codes" }, refusals) : undefined,
    ];
  }

  success(status, response) {
    const body = [h("summary", {}, h("code", {}, status), " ", response.description)];
    for (const [name, header] of Object.entries(response.headers || {})) {
      body.push(h("p", {}, h("code", {}, name), ": ", header.description || ""));
    }
    for (const [media, content] of Object.entries(response.content || {})) {
      body.push(h("p", { class: "soft" }, media), this.members(content.schema));
      if (this.resolve(content.schema).properties) body.push(h("pre", { tabindex: "0" }, JSON.stringify(this.example(content.schema), null, 2)));
    }
    return h("details", {}, body);
  }

  operation(path, method, operation) {
    const parts = [
      h("h3", {}, operation.summary),
      h("p", { class: "path" }, h("span", { class: "method " + method }, method.toUpperCase()), " ", h("code", {}, path)),
      ...paragraphs(operation.description),
      ...this.curl(path, method, operation).map((command) => h("pre", { tabindex: "0" }, command)),
    ];
    if (operation.parameters) {
      parts.push(h("h4", {}, "Parameters"), this.table(operation.parameters.map((p) => this.row(p.name + (p.in === "query" ? "" : " (" + p.in + ")"), p.schema, p.required, p.description))));
    }
    for (const [media, content] of Object.entries((operation.requestBody || {}).content || {})) {
      parts.push(h("details", {}, h("summary", {}, "Body as ", h("code", {}, media)), this.members(content.schema)));
    }
    parts.push(h("h4", {}, "Answers"), ...this.responses(operation));
    return h("article", { id: operation.operationId }, parts);
  }

  *operations() {
    for (const [path, item] of Object.entries(this.description.paths)) {
      for (const method of methods) {
        if (item[method]) yield { path, method, operation: item[method] };
      }
    }
  }

  problems() {
    const rows = this.description["x-problems"].map((p) => h("tr", { id: p.code },
      h("td", {}, h("code", {}, p.code)), h("td", {}, String(p.status)), h("td", {}, h("strong", {}, p.title), ". ", p.meaning)));
    return h("section", { id: "problems" }, h("h2", {}, "Problems"),
      h("p", {}, "Every refusal is a problem document; code is stable."),
      h("table", {}, h("thead", {}, h("tr", {}, ["Code", "Status", "Meaning"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows)),
      h("h4", {}, "The document"), this.members({ $ref: "#/components/schemas/Problem" }));
  }

  render(main, index) {
    main.append(h("section", { id: "api" }, h("h2", {}, "The API"), ...paragraphs(this.description.info.description), h("p", {}, h("a", { href: "/openapi.json" }, "The OpenAPI document"))));
    for (const tag of this.description.tags) {
      const all = [...this.operations()].filter((one) => one.operation.tags.includes(tag.name));
      main.append(h("section", { id: "tag-" + tag.name }, h("h2", {}, tag.name), h("p", {}, tag.description), all.map((one) => this.operation(one.path, one.method, one.operation))));
      index.append(h("section", {}, h("h2", {}, tag.name), h("ul", {}, all.map((one) => h("li", { "data-text": [one.method, one.path, one.operation.summary, one.operation.operationId, Object.keys(one.operation.responses)].flat().join(" ").toLowerCase() },
        h("a", { href: "#" + one.operation.operationId }, h("span", { class: "method " + one.method }, one.method.toUpperCase()), one.operation.summary))))));
    }
    main.append(this.problems());
    index.prepend(h("section", {}, h("h2", {}, "Start"), h("ul", {}, [["key", "A key"], ["receiver", "What a receiver gets"], ["api", "The API"]].map(([id, text]) =>
      h("li", { "data-text": text.toLowerCase() + " signature verify headers admin" }, h("a", { href: "#" + id }, text))))));
    index.append(h("section", {}, h("h2", {}, "Reference"), h("ul", {}, h("li", { "data-text": "problems errors codes" }, h("a", { href: "#problems" }, "Problems")))));
  }
}

function filter(index, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of index.querySelectorAll("li")) item.hidden = !words.every((word) => item.dataset.text.includes(word));
  for (const section of index.querySelectorAll("section")) section.hidden = !section.querySelector("li:not([hidden])");
}

async function start() {
  const state = document.getElementById("state");
  const index = document.getElementById("index");
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error("status " + answer.status);
    new Page(await answer.json()).render(document.getElementById("main"), index);
    state.remove();
  } catch (error) {
    state.textContent = "The description can't be read (" + error.message + "). It is at /openapi.json.";
    return;
  }
  document.getElementById("find").addEventListener("input", (event) => filter(index, event.target.value));
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) target.scrollIntoView();
}

start();
