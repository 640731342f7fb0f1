// An engine over several processes: the first has the engine and its scheduler; every process, the first
// included, has one CPU rank with its share of the model, and does in each step what the first one does.
#pragma once
#include <memory>

#include "device/processes.h"
#include "engine/engine.h"

namespace coterie {

struct CrewPlace {
    Plan plan;
    std::unique_ptr<Runner> runner;
};

RunnerShape runner_shape(const Plan& plan);
PlanRequest plan_request(const EngineOptions& options, const Machine& machine);

// In the first process: has the others place the same model, and places its own rank. One engine at a time.
CrewPlace lead(const std::shared_ptr<Processes>& crew, std::shared_ptr<const Model> model,
               const EngineOptions& options, const ProgressCallback& progress);
// In the others: places and runs what the first process has them do, until it ends.
void serve(const std::shared_ptr<Processes>& crew, const Log& log);

}  // namespace coterie
