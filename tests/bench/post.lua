-- wrk: posts the JPEG that the environment's IMAGE names and reports in a line that front.sh reads.
local file = assert(io.open(os.getenv("IMAGE"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "image/jpeg"
file:close()

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %.0f %.0f %.0f %d\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
