export default {
  "console.title": "Guerdon 콘솔",
  "signIn.title": "로그인",
  "signIn.token": "토큰",
  "signIn.hint": "OPERATOR, ADMIN 또는 AUDITOR 역할의 토큰을 붙여 넣으세요. “guerdon token --link console” 명령이 로그인 링크를 출력합니다.",
  "refused.title": "접근할 수 없는 페이지입니다",
  "refused.text": "{user}(으)로 로그인되어 있으며, 이 역할로는 콘솔을 볼 수 없습니다. 로그아웃한 뒤 운영자 또는 감사자 토큰을 사용하세요.",
};
