// Catch2 of either major version: v2 (Debian 12, Ubuntu 22.04) has one header, v3 has several.
#pragma once
#ifdef COTERIE_CATCH3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
