/* What the tests of the supervisor's messages share: a supervisor, and a worker of which there is no process.
 * The functions of worker_process.c are replaced, and the tests say what a worker would have said. */
#ifndef CONVOY_TESTS_SUPERVISOR_HARNESS_H
#define CONVOY_TESTS_SUPERVISOR_HARNESS_H

#include "server/workers/supervisor.h"
#include "server/workers/supervisor_internal.h"
#include "server/workers/worker_process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENT_BYTES 400

extern struct convoy_worker_process *process; /* of the worker that was made last */
extern int refusals;                          /* so many messages cannot be sent */
extern char sent[SENT_BYTES];                 /* what was, a line for each message */
extern bool loads_files;                      /* the last LOAD: the device may decode */
extern bool expects_kill;
extern int spares_kept;                         /* calls that would start one */
extern const char *killed_for;                  /* NULL: the worker lives */
extern struct convoy_channel_size adopted_size; /* of the worker that there is to adopt; 0 slots: none */

extern struct convoy_config *config;
extern struct convoy_metrics *metrics;
extern struct convoy_registry *registry;
extern struct convoy_supervisor *supervisor;
extern struct convoy_link *master; /* which holds nothing, and answers nothing */
extern uv_loop_t loop;

/* All but the supervisor's start. */
void prepare(void);
void begin(void);
void end(void);

struct convoy_model_record *add_model(const char *name);
void load(struct convoy_model_record *model);

/* The worker says this line. */
void say(const char *line);
void say_hello(void);
void say_measured(const struct convoy_model_record *model, int channels);
void say_loaded_rows(const struct convoy_model_record *model, int channels);
void say_loaded(const struct convoy_model_record *model);

/* LOADED with an answer of two numbers, read from these files. */
void say_answer(const struct convoy_model_record *model, const char *files, const char *values);

/* An image for the model. The next one takes its record. */
struct convoy_item *submit_item(struct convoy_model_record *model);
extern int answers;      /* that the image got */
extern float outputs[2]; /* of the image */

void expect_killed(const char *reason);
/* Turns the loop until that was sent. */
void until_sent(const char *what);
/* Turns the loop until a process runs again. */
void until_started(void);

/* The process is the next one, beside the worker before. */
void comes_beside(void);
/* The worker before is gone, by the master's word. */
void left_is_gone(void);

#endif
