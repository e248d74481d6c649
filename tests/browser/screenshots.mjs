// Makes the pictures of the README: `node tests/browser/screenshots.mjs`, after a build.

import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { openPage, signIn, startBrowser, startServer } from "./start.mjs";

const PICTURES = join(dirname(fileURLToPath(import.meta.url)), "../../docs/pictures");
const DAY = 86_400_000;

async function fill(server) {
  const operator = server.api("ops", "OPERATOR");
  const now = Date.now();
  const points = { rewardId: "points", kind: "POINT", amount: 1000, currency: "POINT" };
  const events = [
    { eventId: "spring_drop", name: "Spring drop: 300 gift boxes", type: "FIRST_COME", capacityTotal: 300, rewards: [points] },
    { eventId: "concert", name: "가을 콘서트 초대권 추첨", type: "LOTTERY", capacityTotal: 50, lotteryCutoffAt: now + DAY, rewards: [points] },
    { eventId: "checkin", name: "매일 출석 체크", type: "ATTENDANCE", attendance: { timeZone: "Asia/Seoul", daily: "points" }, rewards: [points] },
    { eventId: "wheel", name: "Lucky wheel", type: "RANDOM", random: { perDay: 3, prizes: [{ rewardId: "points", weight: 20 }, { rewardId: null, weight: 80 }] }, rewards: [points] },
    { eventId: "level_ten", name: "Level 10 reward", type: "CLAIM", conditions: "activity.LEVEL >= 10", rewards: [points] },
  ];
  for (const event of events) {
    await operator.post("/v1/admin/events", { startsAt: now - 60_000, endsAt: now + 3 * DAY, ...event });
    await operator.post(`/v1/admin/events/${event.eventId}/open`);
  }
  await operator.post("/v1/admin/events", { eventId: "winter", name: "Winter warm-up", type: "FIRST_COME", capacityTotal: 100, startsAt: now + 30 * DAY, endsAt: now + 31 * DAY, rewards: [points] });
}

async function apply(server, from, count) {
  const users = Array.from({ length: count }, (_, index) => `user-${from + index}`);
  await Promise.all(users.map((name) => server.api(name, "USER").post("/v1/events/spring_drop/requests")));
}

const server = await startServer();
const browser = await startBrowser();
try {
  await mkdir(PICTURES, { recursive: true });
  await fill(server);
  const shot = async (name, hash, options, act = async () => {}) => {
    const { page, context } = await openPage(browser, server, { height: 800, ...options });
    await signIn(page, "/console", "ops", "OPERATOR", { name: options.language?.startsWith("ko") ? "김서연" : "Seoyeon Kim" });
    await page.waitForSelector("#content h1");
    await page.evaluate((next) => { location.hash = next; }, hash);
    await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1") && !document.querySelector("#content .loading"), hash);
    await act(page);
    await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    await context.close();
  };
  const points = (page, count) => page.waitForFunction((least) => Number(document.querySelector(".chart-box")?.dataset.points) >= least, count);
  await shot("console-event", "/events/spring_drop", {}, async (page) => {
    await page.waitForSelector("[data-stream=live]");
    let user = 0;
    for (const wave of [2, 6, 14, 22, 31, 26, 34, 21, 17, 24, 15, 19, 11, 13, 8, 9, 5, 6, 3, 1]) {
      await apply(server, user, wave);
      user += wave;
      const before = await page.$eval(".chart-box", (chart) => Number(chart.dataset.points));
      await points(page, before + 1);
    }
  });
  await shot("console-events", "/events", {});
  await shot("console-event-dark", "/events/spring_drop", { dark: true, language: "ko-KR" });
  await shot("console-why-phone", "/events/spring_drop/users/user-3", { width: 360, height: 740, language: "ko-KR" });
} finally {
  await browser.close();
  await server.stop();
}
