// Makes pictures, after a build: those in docs/pictures with `node tests/browser/screenshots.mjs`, and with a folder as its
// argument one of every page there, on a desk, on a phone and in the dark, for whoever wants to look at all of them.

import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { fill as fillConsole, pages as consolePages } from "./console-stage.mjs";
import { openAll, pagesOf, takePartInAll } from "./play.mjs";
import { openPage, signIn, startBrowser, startServer } from "./start.mjs";

const PICTURES = join(dirname(fileURLToPath(import.meta.url)), "../../docs/pictures");
const DAY = 86_400_000;
const POINTS = { rewardId: "points", kind: "POINT", amount: 1000, currency: "POINT" };

/** Goes to a page and waits until what it shows has been read. */
async function go(page, hash) {
  await page.evaluate((next) => { location.hash = next; }, hash);
  await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector("main .loading"));
  // Streams never rest; whatever else a page reads is there by then.
  await page.waitForLoadState("networkidle", { timeout: 1_500 }).catch(() => {});
}

async function enter(here, path, user, roles, options) {
  const opened = await openPage(here, { height: 800, ...options });
  await signIn(opened.page, path, user, roles, { name: options.language?.startsWith("ko") ? "김서연" : "Seoyeon Kim" });
  await opened.page.waitForSelector("main h1");
  return opened;
}

async function everyPage(folder) {
  const ways = {
    desk: { width: 1280, language: "en-GB" },
    phone: { width: 360, height: 740, language: "ko-KR" },
    dark: { width: 1280, language: "ko-KR", dark: true },
  };
  const take = async (here, name, path, user, roles, hashes) => {
    for (const [way, options] of Object.entries(ways)) {
      const { page, context } = await enter(here, path, user, roles, options);
      for (const [index, hash] of hashes.entries()) {
        await go(page, hash);
        const file = `${name}-${String(index).padStart(2, "0")}${hash.replace(/\W+/g, "_").slice(0, 30)}-${way}.png`;
        await page.screenshot({ path: join(folder, file), fullPage: true });
      }
      await context.close();
    }
  };
  const withServer = async (settings, run) => {
    const server = await startServer(settings);
    const here = { server, browser, operator: server.api("ops", "OPERATOR") };
    try {
      await run(here);
    } finally {
      await server.stop();
    }
  };
  await withServer({}, async (here) => {
    const { ids } = await fillConsole(here);
    await take(here, "console", "/console", "ops", "OPERATOR", [...consolePages(ids).map(([hash]) => hash), "/events/none_such"]);
  });
  await withServer({}, async (here) => {
    here.events = await openAll(here);
    await takePartInAll(here, "minji");
    await take(here, "play", "/play", "minji", "USER", [...pagesOf(here.events), "/coupons/NONE", "/events/none_such"]);
  });
}

async function fill({ operator }) {
  const now = Date.now();
  const events = [
    { eventId: "spring_drop", name: "Spring drop: 300 gift boxes", type: "FIRST_COME", capacityTotal: 300 },
    { eventId: "concert", name: "가을 콘서트 초대권 추첨", type: "LOTTERY", capacityTotal: 50, lotteryCutoffAt: now + DAY },
    { eventId: "checkin", name: "매일 출석 체크", type: "ATTENDANCE", attendance: { timeZone: "Asia/Seoul", daily: "points" } },
    {
      eventId: "wheel", name: "행운의 룰렛", type: "RANDOM",
      random: { perDay: 50, prizes: [{ rewardId: "grand_prize", weight: 5 }, { rewardId: "points", weight: 45 }, { rewardId: null, weight: 50 }] },
      rewards: [POINTS, { rewardId: "grand_prize", kind: "POINT", amount: 10_000, currency: "POINT", totalStock: 100 }],
    },
    { eventId: "level_ten", name: "Level 10 reward", type: "CLAIM", conditions: "activity.LEVEL >= 10" },
  ];
  for (const event of events) {
    await operator.post("/v1/admin/events", { startsAt: now - 60_000, endsAt: now + 3 * DAY, rewards: [POINTS], ...event });
    await operator.post(`/v1/admin/events/${event.eventId}/open`);
  }
  await operator.post("/v1/admin/events", { eventId: "winter", name: "Winter warm-up", type: "FIRST_COME", capacityTotal: 100, startsAt: now + 30 * DAY, endsAt: now + 31 * DAY, rewards: [POINTS] });
}

const WAVES = [2, 6, 14, 22, 31, 26, 34, 21, 17, 24, 15, 19, 11, 13, 8, 9, 5, 6, 3, 1];

/** A crowd comes in waves: the next one once the charts have moved. */
async function crowd(page, come) {
  await page.waitForSelector("[data-stream=live]");
  let user = 0;
  for (const wave of WAVES) {
    await Promise.all(Array.from({ length: wave }, (_, index) => come(`user-${user + index}`)));
    user += wave;
    const before = await page.$eval(".chart-box", (chart) => Number(chart.dataset.points ?? 0));
    await page.waitForFunction((least) => Number(document.querySelector(".chart-box")?.dataset.points) >= least, before + 1);
  }
}

async function ofReadme() {
  await mkdir(PICTURES, { recursive: true });
  const server = await startServer({ GUERDON_LIMITS__PER_USER: "0" });
  const here = { server, browser, operator: server.api("ops", "OPERATOR") };
  const shot = async (name, path, hash, options, act = async () => {}) => {
    const [user, roles] = path === "/play" ? ["user-3", "USER"] : ["ops", "OPERATOR"];
    const { page, context } = await enter(here, path, user, roles, options);
    await go(page, hash);
    await act(page);
    await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    await context.close();
  };
  const phone = { width: 360, height: 740, language: "ko-KR" };
  try {
    await fill(here);
    await shot("console-event", "/console", "/events/spring_drop", {}, (page) => crowd(page, (user) => server.api(user, "USER").post("/v1/events/spring_drop/requests")));
    await shot("console-pace", "/console", "/events/wheel", { language: "ko-KR" }, (page) => crowd(page, (user) => server.api(user, "USER").post("/v1/events/wheel/plays", {}, { "idempotency-key": `${user}-plays` })));
    await shot("console-events", "/console", "/events", {});
    await shot("console-event-dark", "/console", "/events/spring_drop", { dark: true, language: "ko-KR" });
    await shot("console-why-phone", "/console", "/events/spring_drop/users/user-3", phone);
    await shot("play-line-phone", "/play", "/events/spring_drop", phone, (page) => page.waitForSelector(".outcome"));
    await shot("play-home-phone", "/play", "/", { ...phone, dark: true });
  } finally {
    await server.stop();
  }
}

const browser = await startBrowser();
try {
  const [folder] = process.argv.slice(2);
  if (folder) {
    await mkdir(folder, { recursive: true });
    await everyPage(folder);
  } else {
    await ofReadme();
  }
} finally {
  await browser.close();
}
