export default {
  "console.title": "Guerdon Console",
  "signIn.title": "Sign in",
  "signIn.token": "Token",
  "signIn.hint": "Paste a token with the role OPERATOR, ADMIN or AUDITOR. “guerdon token --link console” prints a link that signs you in.",
  "refused.title": "This page is not for you",
  "refused.text": "You are signed in as {user}, whose role does not include the console. Sign out and use a token of an operator or an auditor.",
};
