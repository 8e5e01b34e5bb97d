(* A tool for other files: the exponential function, defined by its power series.

   Plain mathcomp has no real numbers. So R is any ordered field, and `exponential e` says that
   e x is the sum of the series 1 + x + x^2/2! + ... for every x. Coq's real numbers and their
   exponential function are such a pair, which real_numbers.v proves. What the book uses of exp and ln is
   proved here from that definition, without an axiom. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Limits of sequences ---- *)
Section Limits.
Variable R : realFieldType.
Definition tends (u : nat -> R) (l : R) :=
  forall eps, 0 < eps -> exists N, forall n, (N <= n)%N -> `|u n - l| < eps.

Lemma tends_const c : tends (fun _ => c) c.
Proof. by move=> eps e0; exists 0%N => n _; rewrite subrr normr0. Qed.
Lemma half (eps : R) : 0 < eps -> 0 < eps / 2%:R.
Proof. by move=> e0; rewrite divr_gt0 ?ltr0n. Qed.
Lemma halves (eps : R) : eps / 2%:R + eps / 2%:R = eps.
Proof. by rewrite -mulr2n -mulr_natr divfK ?pnatr_eq0. Qed.

Lemma tendsB u v l m : tends u l -> tends v m -> tends (fun n => u n - v n) (l - m).
Proof.
move=> ul vm eps /half e0; have [N Nu] := ul _ e0; have [M Mv] := vm _ e0.
exists (maxn N M) => n; rewrite geq_max => /andP[/Nu un /Mv vn].
have -> : u n - v n - (l - m) = (u n - l) - (v n - m) by ident.
by rewrite -(halves eps) (le_lt_trans (ler_norm_sub _ _)) // ltr_add.
Qed.
Lemma tendsM u v l m : tends u l -> tends v m -> tends (fun n => u n * v n) (l * m).
Proof.
(* u v - l m = (u - l) (v - m) + l (v - m) + m (u - l) *)
move=> ul vm eps e0; pose C := 1 + `|l| + `|m|.
have C1 : 1 <= C by rewrite /C -addrA ler_addl addr_ge0.
have C0 : 0 < C := lt_le_trans ltr01 C1.
pose d := Num.min 1 (eps / C); have d0 : 0 < d by rewrite /d lt_minr ltr01 divr_gt0.
have [N Nu] := ul _ d0; have [M Mv] := vm _ d0.
exists (maxn N M) => n; rewrite geq_max => /andP[/Nu un /Mv vn].
have -> : u n * v n - l * m = (u n - l) * (v n - m) + (l * (v n - m) + m * (u n - l)) by ident.
apply: le_lt_trans (_ : 1 * `|v n - m| + (`|l| * d + `|m| * d) < _).
  rewrite (le_trans (ler_norm_add _ _)) // ler_add ?normrM ?ler_wpmul2r //.
    by rewrite ltW // (lt_le_trans un) // /d le_minl lexx.
  by rewrite (le_trans (ler_norm_add _ _)) // ler_add // normrM ler_wpmul2l // ltW.
apply: lt_le_trans (_ : 1 * d + (`|l| * d + `|m| * d) <= _).
  by rewrite ltr_le_add // !mul1r.
by rewrite addrA -!mulrDl -ler_pdivl_mull // mulrC /d le_minl lexx orbT.
Qed.
Lemma tends_le u l c : tends u l -> (exists N, forall n, (N <= n)%N -> u n <= c) -> l <= c.
Proof.
move=> ul [N Nc]; rewrite leNgt; apply/negP; rewrite -subr_gt0 => lc.
have [M Mu] := ul _ lc; pose n := maxn N M.
have := Mu n (leq_maxr _ _); rewrite ltNge distrC => /negP; apply.
by rewrite (le_trans _ (ler_norm _)) // ler_sub // Nc // leq_maxl.
Qed.
Lemma tends_ge u l c : tends u l -> (exists N, forall n, (N <= n)%N -> c <= u n) -> c <= l.
Proof.
move=> ul [N Nc]; rewrite -subr_le0.
apply: (tends_le (tendsB (tends_const c) ul)); exists N => n /Nc.
by rewrite subr_le0.
Qed.
Lemma tends_unique u l m : tends u l -> tends u m -> l = m.
Proof.
move=> ul um; apply/eqP; rewrite -subr_eq0; have d := tendsB ul um.
rewrite eq_le; apply/andP; split.
  by apply: tends_le d _; exists 0%N => n _; rewrite subrr.
by apply: tends_ge d _; exists 0%N => n _; rewrite subrr.
Qed.
End Limits.

(* ---- The exponential function ---- *)
Section Series.
Variable R : realFieldType.
Definition partial (x : R) n := \sum_(k < n) x ^+ k / k`!%:R.
Definition exponential (e : R -> R) := forall x, tends (partial x) (e x).
Definition logarithm (e l : R -> R) := forall y, 0 < y -> e (l y) = y.

(* The terms of the product of two series. *)
Definition term (x y : R) i j := x ^+ i / i`!%:R * (y ^+ j / j`!%:R).
Lemma fact0 k : k`!%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n fact_gt0. Qed.
Lemma partialM x y n : partial x n * partial y n = \sum_(i < n) \sum_(j < n) term x y i j.
Proof. by rewrite /partial big_distrlr. Qed.

(* (x + y)^k / k! collects the terms with i + j = k. *)
Lemma binomial x y m k : (k < m)%N ->
  (x + y) ^+ k / k`!%:R = \sum_(i < m) \sum_(j < m | (i + j == k)%N) term x y i j.
Proof.
move=> km; rewrite addrC exprDn mulr_suml.
rewrite (big_ord_widen m (fun i => y ^+ (k - i) * x ^+ i *+ 'C(k, i) / k`!%:R)) //.
rewrite big_mkcond; apply: eq_bigr => i _; rewrite ltnS; case: leqP => [ik|ki]; last first.
  by rewrite big_pred0 // => j; apply/negbTE; rewrite neq_ltn (leq_trans ki) ?leq_addr ?orbT.
rewrite (big_pred1 (Ordinal (leq_ltn_trans (leq_subr i k) km))) => [|j]; last first.
  by rewrite /= -val_eqE /= -[RHS](eqn_add2l i) subnKC.
rewrite /term /= -mulr_natr -(bin_fact ik) !natrM; set b := 'C(k, i)%:R.
have b0 : b != 0 by rewrite pnatr_eq0 -lt0n bin_gt0.
by rewrite !invfM -mulrA mulVKf // [y ^+ _ * _]mulrC mulrACA.
Qed.
Lemma triangle x y n :
  partial (x + y) n = \sum_(i < n) \sum_(j < n | (i + j < n)%N) term x y i j.
Proof.
rewrite /partial (eq_bigr _ (fun k _ => binomial x y (ltn_ord k))) exchange_big /=.
apply: eq_bigr => i _; rewrite (exchange_big_dep (fun j : 'I_n => i + j < n)%N) /=; last first.
  by move=> k j _ /eqP ->.
apply: eq_bigr => j ij; rewrite (big_pred1 (Ordinal ij)) // => k.
by rewrite /= -val_eqE eq_sym.
Qed.
(* What the product has more than the series of x + y: terms with i + j >= n. *)
Lemma excess x y n : partial x n * partial y n - partial (x + y) n =
  \sum_(i < n) \sum_(j < n | ~~ (i + j < n)%N) term x y i j.
Proof.
rewrite partialM triangle -sumrB; apply: eq_bigr => i _.
by rewrite (bigID (fun j : 'I_n => i + j < n)%N) /= addrC addKr.
Qed.
Lemma term_norm (x y : R) i j : `|term x y i j| = term `|x| `|y| i j.
Proof. by rewrite /term !normrM !normfV !normrX !normr_nat. Qed.
Lemma term_ge0 (x y : R) i j : 0 <= term `|x| `|y| i j.
Proof. by rewrite -term_norm. Qed.
End Series.

Section Laws.
Variables (R : realFieldType) (e : R -> R).
Hypothesis eE : exponential e.

(* For x, y >= 0 the product of the partial sums lies between the sums of x + y up to n and 2n. *)
Lemma squeeze (x y : R) n :
  partial `|x| n * partial `|y| n <= partial (`|x| + `|y|) n.*2.
Proof.
rewrite partialM triangle -addnn.
rewrite (big_ord_widen_cond (n + n) predT (fun i => \sum_(j < n) term `|x| `|y| i j)) ?leq_addr //.
rewrite big_mkcond; apply: ler_sum => i _ /=.
have pos (P : pred 'I_(n + n)) : 0 <= \sum_(j < n + n | P j) term `|x| `|y| i j.
  by apply: sumr_ge0 => j _; apply: term_ge0.
case: ifP => // iN.
rewrite (big_ord_widen_cond (n + n) predT (fun j => term `|x| `|y| i j)) ?leq_addr //.
rewrite [X in X <= _]big_mkcond [X in _ <= X]big_mkcond; apply: ler_sum => j _ /=.
case: ifP => [jN|_]; last by case: ifP => // _; apply: term_ge0.
by rewrite -addnS leq_add // ltnW.
Qed.

Lemma tends0 (x y : R) : tends (fun n => partial x n * partial y n - partial (x + y) n) 0.
Proof.
move=> eps e0; set z := `|x| + `|y|.
have [N Nz] := eE z (half e0); exists N => n Nn; rewrite subr0.
(* The excess is at most that of |x| and |y|, and that is at most S_2n(z) - S_n(z). *)
apply: le_lt_trans (_ : partial z n.*2 - partial z n < _).
  apply: (@le_trans _ _ (partial `|x| n * partial `|y| n - partial z n)); last first.
    by rewrite ler_sub // squeeze.
  rewrite !excess (le_trans (ler_norm_sum _ _ _)) //; apply: ler_sum => i _.
  rewrite (le_trans (ler_norm_sum _ _ _)) //; apply: ler_sum => j _.
  by rewrite term_norm.
have -> : partial z n.*2 - partial z n = (partial z n.*2 - e z) + (e z - partial z n) by ident.
rewrite (le_lt_trans (ler_norm _)) // (le_lt_trans (ler_norm_add _ _)) // -(halves eps).
by rewrite ltr_add ?Nz // 1?distrC ?Nz // (leq_trans Nn) // -addnn leq_addr.
Qed.
Lemma expD x y : e (x + y) = e x * e y.
Proof.
have := tendsB (tendsM (eE x) (eE y)) (eE (x + y)).
by move/tends_unique/(_ (tends0 x y))/eqP; rewrite subr_eq0 => /eqP.
Qed.

Lemma partial_ge1 (x : R) n : 0 <= x -> (1 < n)%N -> 1 + x <= partial x n.
Proof.
move=> x0; case: n => [|[|n]] // _; rewrite /partial !big_ord_recl /= /bump /= expr0 !divr1.
by rewrite add1n expr1 addrA ler_addl sumr_ge0 // => i _; rewrite divr_ge0 ?exprn_ge0 ?ler0n.
Qed.
Lemma exp_ge_pos x : 0 <= x -> 1 + x <= e x.
Proof. by move=> x0; apply: tends_ge (eE x) _; exists 2%N => n; apply: partial_ge1. Qed.
Lemma exp0 : e 0 = 1.
Proof.
apply/eqP; rewrite eq_le -{2}[1]addr0 exp_ge_pos // andbT; apply: tends_le (eE 0) _.
exists 1%N => -[//|n] _; rewrite /partial big_ord_recl big1 ?addr0 ?expr0 ?divr1 // => i _.
by rewrite expr0n mul0r.
Qed.
Lemma expN x : e (- x) = (e x)^-1.
Proof.
have e1 : e x * e (- x) = 1 by rewrite -expD subrr exp0.
have ex0 : e x != 0 by apply/eqP => ex0; move/eqP: e1; rewrite ex0 mul0r eq_sym oner_eq0.
by apply: (mulfI ex0); rewrite e1 mulfV.
Qed.
Lemma exp_gt0 x : 0 < e x.
Proof.
have [x0|x0] := lerP 0 x; first by apply: lt_le_trans (exp_ge_pos x0); rewrite ltr_paddr.
rewrite -[x]opprK expN invr_gt0; have x1 : 0 <= - x by rewrite oppr_ge0 ltW.
by apply: lt_le_trans (exp_ge_pos x1); rewrite ltr_paddr.
Qed.
(* For 0 <= t < 1 the series is at most the geometric one: e^t (1 - t) <= 1. *)
Lemma exp_le_geometric t : 0 <= t -> e t * (1 - t) <= 1.
Proof.
move=> t0; have [t1|t1] := lerP 1 t.
  by apply: le_trans ler01; rewrite pmulr_rle0 ?subr_le0 ?exp_gt0.
apply: tends_le (tendsM (eE t) (tends_const (1 - t))) _; exists 0%N => n _.
have geo : (\sum_(k < n) t ^+ k) * (1 - t) = 1 - t ^+ n.
  by rewrite -[RHS]opprB subrX1 mulrC -mulNr opprB.
apply: (@le_trans _ _ (1 - t ^+ n)); last by rewrite ler_subl_addr ler_addl exprn_ge0.
rewrite -geo ler_wpmul2r ?subr_ge0 ?(ltW t1) // /partial; apply: ler_sum => k _.
by rewrite ler_pdivr_mulr ?ltr0n ?fact_gt0 // ler_pemulr ?exprn_ge0 ?ler1n ?fact_gt0.
Qed.
(* The terms of a series that converges tend to 0; so every x lies below some whole number. *)
Lemma exp_archimedean (x : R) : exists n, x < n%:R.
Proof.
have [N Nx] := eE x (half (@ltr01 R)).
suff [n xn] : exists n, ~~ (n%:R <= x) by exists n; rewrite ltNge.
exists N.+1; apply/negP => Nle; have x0 : 0 <= x := le_trans (ler0n _ _) Nle.
have below k : (k <= N.+1)%N -> 1 <= x ^+ k / k`!%:R.
  elim: k => [|k IH] kN; first by rewrite expr0 divr1.
  rewrite exprS factS natrM invfM mulrACA -[X in X <= _]mulr1 ler_pmul ?ler01 //.
    by rewrite ler_pdivl_mulr ?ltr0n // mul1r (le_trans _ Nle) // ler_nat.
  by rewrite IH // ltnW.
have : `|partial x N.+1 - partial x N| < 1.
  have -> : partial x N.+1 - partial x N = (partial x N.+1 - e x) - (partial x N - e x) by ident.
  by rewrite -(halves 1) (le_lt_trans (ler_norm_sub _ _)) // ltr_add ?Nx.
rewrite /partial big_ord_recr /= addrC addKr ltNge => /negP; apply.
by rewrite (le_trans (below N _)) ?ler_norm.
Qed.
Lemma exp_ge x : 1 + x <= e x.
Proof.
have [x0|x0] := lerP 0 x; first exact: exp_ge_pos.
rewrite -[x in e x]opprK expN -[X in _ <= X]mul1r ler_pdivl_mulr ?exp_gt0 // mulrC.
by rewrite -[x in 1 + x]opprK exp_le_geometric // oppr_ge0 ltW.
Qed.
Lemma exp_neq0 x : e x != 0. Proof. by rewrite gt_eqF // exp_gt0. Qed.
Lemma exp_gt x : x != 0 -> 1 + x < e x.
Proof.
(* e^x = (e^(x/2))^2, and (1 + x/2)^2 = 1 + x + x^2/4 *)
move=> x0; have [x1|x1] := lerP (1 + x) 0; first exact: le_lt_trans (exp_gt0 x).
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
have xE : x = x / 2%:R + x / 2%:R by rewrite halves.
have h0 : 0 <= 1 + x / 2%:R.
  by rewrite -(pmulr_lge0 _ (ltr0n R 2)) mulrDl divfK // mul1r -(addrA 1 1) addr_ge0 ?ltW.
apply: (@lt_le_trans _ _ ((1 + x / 2%:R) ^+ 2)); last first.
  by rewrite [in X in _ <= X]xE expD -expr2 ler_expn2r ?nnegrE ?exp_ge // ltW ?exp_gt0.
have -> : (1 + x / 2%:R) ^+ 2 = 1 + (x / 2%:R + x / 2%:R) + (x / 2%:R) ^+ 2 by ident.
by rewrite -xE ltr_addl exprn_even_gt0 //= mulf_neq0 ?invr_eq0.
Qed.
Lemma exp_lt x y : (e x < e y) = (x < y).
Proof.
have mono u v : u < v -> e u < e v.
  move=> uv; rewrite -(subrK u v) expD -[X in X < _]mul1r ltr_pmul2r ?exp_gt0 //.
  by rewrite (lt_le_trans _ (exp_ge _)) // ltr_addl subr_gt0.
apply/idP/idP => [|/mono //]; apply: contraLR; rewrite -!leNgt le_eqVlt.
by case/orP => [/eqP ->|/mono /ltW]; rewrite ?lexx.
Qed.
Lemma exp_le x y : (e x <= e y) = (x <= y).
Proof. by rewrite !leNgt exp_lt. Qed.
Lemma exp_inj : injective e.
Proof. by move=> x y exy; apply/eqP; rewrite eq_le -[x <= y]exp_le -[y <= x]exp_le exy lexx. Qed.
Lemma exp_nat x n : e (n%:R * x) = e x ^+ n.
Proof.
by elim: n => [|n IH]; rewrite ?mul0r ?exp0 // exprS -IH -expD mulrSr mulrDl mul1r addrC.
Qed.

Section Logarithm.
Variable l : R -> R.
Hypothesis lE : logarithm e l.
Lemma lnK y : 0 < y -> e (l y) = y. Proof. exact: lE. Qed.
Lemma expK x : l (e x) = x. Proof. by apply: exp_inj; rewrite lE ?exp_gt0. Qed.
Lemma ln1 : l 1 = 0. Proof. by rewrite -exp0 expK. Qed.
Lemma lnM x y : 0 < x -> 0 < y -> l (x * y) = l x + l y.
Proof. by move=> x0 y0; apply: exp_inj; rewrite expD !lE ?mulr_gt0. Qed.
End Logarithm.
End Laws.
