// Official JavaScript SDKs on the other side of the wire; sdk.py says how.
//   sdk.mjs verify < signed.ndjson
//   sdk.mjs sign   > theirs.ndjson
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages lie in the cache, not beside this file: the first argument is
// the folder that holds node_modules.
const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const standard = require("standardwebhooks");
const svix = require("svix");
const Stripe = require("stripe");
const stripe = new (Stripe.default ?? Stripe)("sk_test_unused");

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const bodies = ['{"type":"order.paid","data":{"id":1}}', '{ "z":1,\t"a":"<b>&é ☂" }\n', "[]"];

function verify({ scheme, secret, headers }, body) {
  switch (scheme) {
    case "standardwebhooks":
      return new standard.Webhook(secret).verify(body, headers);
    case "svix":
      return new svix.Webhook(secret).verify(body, headers);
    case "stripe":
      return stripe.webhooks.constructEvent(body, headers["stripe-signature"], secret, 300);
    default:
      throw new Error(`no SDK for ${scheme}`);
  }
}

function refused(request, body) {
  try {
    verify(request, body);
    return false;
  } catch {
    return true;
  }
}

function sign(scheme, body, now) {
  const seconds = Math.floor(now.getTime() / 1000);
  if (scheme === "stripe") {
    return { "stripe-signature": stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: seconds }) };
  }
  const [maker, prefix] = scheme === "svix" ? [svix.Webhook, "svix"] : [standard.Webhook, "webhook"];
  return {
    [`${prefix}-id`]: "msg_1",
    [`${prefix}-timestamp`]: String(seconds),
    [`${prefix}-signature`]: new maker(secret).sign("msg_1", now, body),
  };
}

if (process.argv[3] === "verify") {
  let count = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const body = Buffer.from(request.body, "base64").toString();
    verify(request, body);
    if (!refused(request, body + " ")) {
      throw new Error(`${request.scheme}: the SDK took a changed body: this check checks nothing`);
    }
    count++;
  }
  if (count === 0) throw new Error("nothing to verify");
  console.log(`javascript: ${count} requests verified by the official SDKs`);
} else {
  const now = new Date();
  for (const scheme of ["standardwebhooks", "svix", "stripe"]) {
    for (const body of bodies) {
      console.log(JSON.stringify({ scheme, secret, headers: sign(scheme, body, now), body: Buffer.from(body).toString("base64") }));
    }
  }
}
