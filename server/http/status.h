/* The status codes of answers (RFC 9110, section 15, and RFC 6585), and names of header fields that endpoints
 * read. */
#ifndef CONVOY_SERVER_STATUS_H
#define CONVOY_SERVER_STATUS_H

#define CONVOY_HTTP_OK                     200
#define CONVOY_HTTP_NO_CONTENT             204
#define CONVOY_HTTP_NOT_MODIFIED           304
#define CONVOY_HTTP_BAD_REQUEST            400
#define CONVOY_HTTP_UNAUTHORIZED           401
#define CONVOY_HTTP_FORBIDDEN              403
#define CONVOY_HTTP_NOT_FOUND              404
#define CONVOY_HTTP_METHOD_NOT_ALLOWED     405
#define CONVOY_HTTP_REQUEST_TIMEOUT        408
#define CONVOY_HTTP_CONTENT_TOO_LARGE      413
#define CONVOY_HTTP_URI_TOO_LONG           414
#define CONVOY_HTTP_UNSUPPORTED_MEDIA_TYPE 415
#define CONVOY_HTTP_UNPROCESSABLE_CONTENT  422
#define CONVOY_HTTP_TOO_MANY_REQUESTS      429
/* What metrics and logs say of a request whose client left before its answer: nginx's number, which no client
 * sees. */
#define CONVOY_HTTP_CLIENT_GONE 499
/* Its sentence. */
#define CONVOY_CLIENT_GONE_SENTENCE       "the client closed the connection before it was answered"
#define CONVOY_HTTP_INTERNAL_SERVER_ERROR 500
#define CONVOY_HTTP_SERVICE_UNAVAILABLE   503

#endif
