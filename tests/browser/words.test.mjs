// The dictionaries say the same things, and every text that a page asks for is there. Needs no browser.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ASSETS = join(dirname(fileURLToPath(import.meta.url)), "../../crates/server/assets");

async function dictionary(part, language) {
  const text = await readFile(join(ASSETS, part, `words.${language}.js`), "utf8");
  return (await import(`data:text/javascript;base64,${Buffer.from(text).toString("base64")}`)).default;
}

const all = await readdir(ASSETS, { recursive: true });
const parts = all.filter((file) => file.endsWith("words.en.js")).map((file) => dirname(file));

for (const part of parts) {
  test(`the words of ${part} are there in both languages`, async () => {
    const [en, ko] = await Promise.all([dictionary(part, "en"), dictionary(part, "ko")]);
    assert.deepEqual(Object.keys(en).sort(), Object.keys(ko).sort());
    for (const key of Object.keys(en)) {
      const names = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
      assert.ok(en[key].trim() && ko[key].trim(), `${key} is empty`);
      assert.deepEqual(names(ko[key]), names(en[key]), `${key} has the same gaps`);
    }
  });

  test(`every word that ${part} asks for is there`, async () => {
    const known = { ...(await dictionary("base", "en")), ...(await dictionary(part, "en")) };
    for (const file of all.filter((file) => file.startsWith(`${part}/`) && file.endsWith(".js"))) {
      const text = await readFile(join(ASSETS, file), "utf8");
      for (const [, key] of text.matchAll(/\bt\("([^"]+)"/g)) assert.ok(key in known, `${file} asks for ${key}`);
    }
  });
}

/** Where the API has names of its own, and the group of words that says them. */
const NAMES = {
  EventStatus: "eventStatus", EventType: "eventType", GrantPolicy: "grantPolicy", AttendanceCount: "attendanceCount", RequestStatus: "requestStatus",
  ResultCode: "resultCode", ClaimStatus: "claimStatus", SagaStep: "sagaStep", InventoryStatus: "inventoryStatus", GrantStatus: "grantStatus",
  UndoAction: "undoAction", UndoPhase: "undoPhase", AllocationStatus: "allocationStatus", RetryStatus: "retryStatus", BulkAction: "bulk",
  MessageStatus: "messageStatus", AccountStatus: "accountStatus", Side: "side", TransferKind: "transferKind", UserCouponStatus: "userCouponStatus",
  CouponResult: "couponResult", UserStatus: "userStatus", DrawState: "drawState", RewardKindName: "reward", HitKind: "kind", Verdict: "verdict", ReasonCode: "reason",
};

test("every name that the API can say has words in the console", async () => {
  const { components } = JSON.parse(await readFile(join(ASSETS, "../../../docs/openapi.json"), "utf8"));
  const known = await dictionary("console", "en");
  for (const [schema, group] of Object.entries(NAMES)) {
    const names = components.schemas[schema]?.enum;
    assert.ok(names?.length > 0, `${schema} is not described`);
    for (const name of names) assert.ok(`${group}.${name}` in known, `${group}.${name} has no words`);
  }
});

const SOURCES = join(ASSETS, "../..");

/** Whatever stands in a file of the house's own, as often as it stands there. */
async function named(file, pattern) {
  const text = await readFile(join(SOURCES, file), "utf8");
  const found = [...text.matchAll(pattern)].map((match) => match[1]);
  assert.ok(found.length > 20, `${file} lists ${found.length}`);
  return found;
}

test("every code of a problem has words in both languages", async () => {
  const codes = await named("core/src/code.rs", /^    \w+ "([A-Z_]+)" "/gm);
  assert.ok(codes.includes("EVENT_NOT_OPEN") && codes.includes("INTERNAL_ERROR"));
  for (const language of ["en", "ko"]) {
    const known = await dictionary("base", language);
    for (const code of codes) assert.ok(known[`problem.${code}`], `problem.${code} has no words in ${language}`);
    const told = Object.keys(known).filter((key) => key.startsWith("problem."));
    assert.deepEqual(told.map((key) => key.slice("problem.".length)).sort(), codes.sort(), "and nothing else has");
  }
});

test("every check of the audit has a name in the console", async () => {
  const checks = await named("engine/src/audit/check.rs", /^    (\w+) "[^"]+";$/gm);
  const known = await dictionary("console", "en");
  for (const check of checks) assert.ok(known[`check.${check}`], `check.${check} has no words`);
});
