(* Page 9: Any sparse pattern in logarithmic dimension (Lemma 9.6 for signs), and the Johnson-Lindenstrauss
   lemma of page 6 for matrices of signs. A chance is a count: the share of all matrices of signs. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Not negative: sums, products, quotients, powers of what is not negative. *)
Local Ltac pos := repeat first [assumption | exact: ler01 | match goal with
  | |- is_true (@Order.le _ _ _ (@GRing.exp _ _ 2)) => apply: sqr_ge0
  | |- is_true (@Order.le _ _ _ (@GRing.natmul _ (@GRing.one _) _)) => apply: ler0n
  | |- is_true (@Order.le _ _ _ (@GRing.add _ _ _)) => apply: addr_ge0
  | |- is_true (@Order.le _ _ _ (@GRing.mul _ _ _)) => apply: mulr_ge0
  | |- is_true (@Order.le _ _ _ (@GRing.exp _ _ _)) => apply: exprn_ge0
  | |- is_true (@Order.le _ _ _ (@GRing.inv _ _)) => rewrite invr_ge0 end].

Section Series.
Variables (F : realFieldType) (e : F -> F).
Hypothesis eE : exponential e.

(* ---- cosh y <= e^(y^2/2), term by term ---- *)
Lemma evens (u : nat -> F) l : tends u l -> tends (fun n => u n.*2) l.
Proof.
move=> ul eps /ul[N Nu]; exists N => n Nn; apply: Nu.
by rewrite (leq_trans Nn) // -addnn leq_addr.
Qed.
Lemma fact_double n : (2 ^ n * n`! <= n.*2`!)%N.
Proof.
elim: n => // n IH; rewrite expnS factS doubleS !factS mulnACA.
have -> : (2 * n.+1 = n.*2.+2)%N by rewrite mul2n doubleS.
by rewrite leq_mul2l /= (leq_trans IH) // leq_pmull.
Qed.
Lemma cosh_partial (y : F) n :
  (partial y n.*2 + partial (- y) n.*2) / 2%:R <= partial (y ^+ 2 / 2%:R : F) n.
Proof.
elim: n => [|n IH]; first by rewrite /partial !big_ord0 addr0 mul0r.
rewrite /partial doubleS !big_ord_recr /= -!/(partial _ _).
set P := partial y _ in IH *; set N := partial (- y) _ in IH *.
have odd : (- y) ^+ n.*2.+1 = - y ^+ n.*2.+1.
  by rewrite exprNn -signr_odd /= odd_double expr1 mulN1r.
have even : (- y) ^+ n.*2 = y ^+ n.*2.
  by rewrite exprNn -signr_odd odd_double expr0 mul1r.
rewrite odd even.
set a := y ^+ n.*2 / _; set b := y ^+ n.*2.+1 / _.
have -> : (P + a + b + (N + a + - y ^+ n.*2.+1 / (n.*2.+1)`!%:R)) / 2%:R = (P + N) / 2%:R + a.
  by rewrite mulNr -/b; field.
apply: ler_add => //; rewrite /a expr_div_n -exprM mul2n -natrX -mulrA -invfM -natrM.
rewrite ler_wpmul2l ?exprn_even_ge0 ?odd_double // lef_pinv ?posrE ?ltr0n ?fact_gt0 //; last first.
  by rewrite muln_gt0 expn_gt0 fact_gt0.
by rewrite ler_nat fact_double.
Qed.
Lemma cosh_le y : (e y + e (- y)) / 2%:R <= e (y ^+ 2 / 2%:R).
Proof.
have two : 0 < 2%:R :> F by rewrite ltr0n.
have t := tendsB (eE (y ^+ 2 / 2%:R))
  (tendsM (tendsB (evens (eE y)) (tendsM (tends_const (-1)) (evens (eE (- y))))) (tends_const 2%:R^-1)).
have := tends_ge (c := 0) t _; rewrite mulN1r opprK subr_ge0; apply; exists 0%N => n _.
by rewrite mulN1r opprK subr_ge0 cosh_partial.
Qed.

(* ---- Partial sums that bound the exponential function ---- *)
Lemma exp_cubic x : 0 <= x -> 1 + x + x ^+ 2 / 2%:R + x ^+ 3 / 6%:R <= e x.
Proof.
move=> x0; apply: tends_ge (eE x) _; exists 4%N => n n4; rewrite -(subnK n4) addnC /partial.
rewrite big_split_ord /= !big_ord_recl big_ord0 /= /bump /= !addn0 -[X in X <= _]addr0.
apply: ler_add; last by apply: sumr_ge0 => i _; rewrite divr_ge0 ?exprn_ge0 ?ler0n.
rewrite addr0 expr0 expr1 !divr1 !addrA le_eqVlt; apply/orP; left.
by apply/eqP.
Qed.
Lemma exp_quadratic x : 0 <= x -> 1 + x + x ^+ 2 / 2%:R <= e x.
Proof. by move=> x0; apply: le_trans (exp_cubic x0); rewrite ler_addl; pos. Qed.
Lemma expN_quadratic x : 0 <= x -> e (- x) <= 1 - x + x ^+ 2 / 2%:R.
Proof.
move=> x0; have p0 : 0 < 1 + x + x ^+ 2 / 2%:R.
  by rewrite -addrA ltr_paddr ?ltr01 //; pos.
apply: (@le_trans _ _ (1 + x + x ^+ 2 / 2%:R)^-1).
  by rewrite (expN eE) lef_pinv ?posrE ?(exp_gt0 eE) // exp_quadratic.
rewrite -div1r ler_pdivr_mulr // -subr_ge0.
have -> : (1 - x + x ^+ 2 / 2%:R) * (1 + x + x ^+ 2 / 2%:R) - 1 = (x ^+ 2 / 2%:R) ^+ 2 by field.
by rewrite sqr_ge0.
Qed.
Lemma expN_cubic x : 0 <= x <= 1 -> 1 - x + x ^+ 2 / 2%:R - x ^+ 3 / 6%:R <= e (- x).
Proof.
case/andP=> x0 x1; apply: tends_ge (evens (eE (- x))) _; exists 2%N => n n2.
rewrite -(subnK n2); elim: (n - 2)%N => [|m IH].
  rewrite add0n /partial !big_ord_recl big_ord0 /= /bump /= !addn0 addr0 expr0 expr1 !divr1.
  by rewrite !addrA le_eqVlt; apply/orP; left; apply/eqP; 
  rewrite -[(1 + 1)`!]/2%N -[(1 + (1 + 1))`!]/6%N sqrrN; field.
apply: le_trans IH _; rewrite addSn doubleS; set k := (m + 2).*2.
rewrite /partial !big_ord_recr /= -/(partial _ _) -addrA ler_addl.
have even : (- x) ^+ k = x ^+ k by rewrite exprNn -signr_odd odd_double expr0 mul1r.
rewrite [(- x) ^+ k.+1]exprS even mulNr -exprS mulNr subr_ge0.
rewrite ler_pmul ?exprn_ge0 ?invr_ge0 ?ler0n //; first by rewrite exprS ler_pimull ?exprn_ge0.
by rewrite lef_pinv ?posrE ?ltr0n ?fact_gt0 // ler_nat factS leq_pmull.
Qed.

(* ln (1 + t) <= t - t^2/2 + t^3/3, with t = 6 r so that no fraction occurs *)
Lemma log_above t : 0 <= t <= 1 -> 1 + t <= e (t - t ^+ 2 / 2%:R + t ^+ 3 / 3%:R).
Proof.
pose r := t / 6%:R; have -> : t = 6%:R * r by rewrite /r; field.
move: r => r /andP[r0 r1]; have {}r0 : 0 <= r by rewrite -(pmulr_rge0 _ (ltr0n F 6)).
pose s := 3%:R * r - 12%:R * r ^+ 2; set y := _ + _ / _.
have yE : y = 6%:R * r * (1 - s) by rewrite /y /s; field.
have r3 : 0 <= 1 - 6%:R * r by rewrite subr_ge0.
have s0 : 0 <= s.
  have -> : s = r * (2%:R * (1 - 6%:R * r) + 1) by rewrite /s; ring.
  by pos.
have s1 : 0 <= 1 - s.
  have -> : 1 - s = 1 - 6%:R * r + 3%:R * r + 12%:R * r ^+ 2 by rewrite /s; ring.
  by pos.
have s3 : 0 <= 3%:R - s by have -> : 3%:R - s = 1 - s + 2%:R; [ring | pos].
have y0 : 0 <= y by rewrite yE; pos.
apply: le_trans (exp_cubic y0); rewrite -subr_ge0 yE.
have -> : 1 + 6%:R * r * (1 - s) + (6%:R * r * (1 - s)) ^+ 2 / 2%:R +
    (6%:R * r * (1 - s)) ^+ 3 / 6%:R - (1 + 6%:R * r) = (18%:R * r ^+ 2 * (1 - 2%:R * s + s ^+ 2)
    - 6%:R * r * s + 36%:R * r ^+ 3 * (1 - 3%:R * s)) + 36%:R * r ^+ 3 * (s ^+ 2 * (3%:R - s)).
  by move: s {yE s0 s1 s3} => s; field.
have -> : 18%:R * r ^+ 2 * (1 - 2%:R * s + s ^+ 2) - 6%:R * r * s + 36%:R * r ^+ 3 * (1 - 3%:R * s)
  = 54%:R * (5%:R * r ^+ 4 + 48%:R * r ^+ 6) by rewrite /s; ring.
by pos.
Qed.
(* The same for the lower tail, with t = 12 r *)
Lemma log_below t : 0 <= t <= 1 ->
  1 - t / 2%:R + 3%:R / 8%:R * t ^+ 2 <= e (- (t / 2%:R - t ^+ 2 / 4%:R - t ^+ 3 / 6%:R)).
Proof.
pose r := t / 12%:R; have -> : t = 12%:R * r by rewrite /r; field.
move: r => r /andP[r0 r1]; have {}r0 : 0 <= r by rewrite -(pmulr_rge0 _ (ltr0n F 12)).
pose s := 6%:R * r + 48%:R * r ^+ 2; set v := _ - _ / 6%:R.
have vE : v = 6%:R * r * (1 - s) by rewrite /v /s; field.
have s0 : 0 <= s by rewrite /s; pos.
have r3 : 0 <= 1 - 12%:R * r by rewrite subr_ge0.
have s1 : 0 <= 1 - s.
  rewrite -(pmulr_rge0 _ (ltr0n F 6)).
  have -> : 6%:R * (1 - s) = (1 - 12%:R * r) * (5%:R + 24%:R * r) + 1 by rewrite /s; ring.
  by pos.
have v0 : 0 <= v by rewrite vE; pos.
have v1 : v <= 1.
  rewrite -subr_ge0 -(pmulr_rge0 _ (ltr0n F 2)) vE.
  have -> : 2%:R * (1 - 6%:R * r * (1 - s)) = 1 - 12%:R * r + 1 + 12%:R * r * s by ring.
  by pos.
apply: le_trans (expN_cubic _); last by rewrite v0.
have -> : 1 - 12%:R * r / 2%:R + 3%:R / 8%:R * (12%:R * r) ^+ 2 = 1 - 6%:R * r + 54%:R * r ^+ 2.
  by field.
rewrite -subr_ge0 vE.
have -> : 1 - 6%:R * r * (1 - s) + (6%:R * r * (1 - s)) ^+ 2 / 2%:R -
    (6%:R * r * (1 - s)) ^+ 3 / 6%:R - (1 - 6%:R * r + 54%:R * r ^+ 2) =
    (6%:R * r * s + 18%:R * r ^+ 2 * (1 - 2%:R * s + s ^+ 2) - 54%:R * r ^+ 2 - 36%:R * r ^+ 3) +
    36%:R * r ^+ 3 * (s * ((1 - s) ^+ 2 + (1 - s) + 1)).
  by move: s {vE s0 s1} => s; field.
have -> : 6%:R * r * s + 18%:R * r ^+ 2 * (1 - 2%:R * s + s ^+ 2) - 54%:R * r ^+ 2 -
    36%:R * r ^+ 3 = 36%:R * r ^+ 3 * ((1 - 15%:R * r) ^+ 2 + 63%:R * r ^+ 2 + 1152%:R * r ^+ 3).
  by rewrite /s; ring.
by pos.
Qed.
End Series.

Section Vectors.
Variables (F : realFieldType).
Definition sgn (b : bool) : F := if b then -1 else 1.
(* The mean over all 2^n vectors of n signs. *)
Definition mean n (f : {ffun 'I_n -> bool} -> F) := (\sum_v f v) / 2%:R ^+ n.
(* z: the sum of w_j sigma_j *)
Definition signed n (w : 'I_n -> F) (v : {ffun 'I_n -> bool}) := \sum_j w j * sgn (v j).
(* The signs of the first coordinate and of the others *)
Definition put n (b : bool) (v : {ffun 'I_n -> bool}) : {ffun 'I_n.+1 -> bool} :=
  [ffun i => if unlift ord0 i is Some j then v j else b].

Lemma sum_put n (f : {ffun 'I_n.+1 -> bool} -> F) :
  \sum_u f u = \sum_(v : {ffun 'I_n -> bool}) (f (put false v) + f (put true v)).
Proof.
rewrite big_split /= -[RHS]addrC -(big_bool _ (fun b => \sum_(v : {ffun 'I_n -> bool}) f (put b v))).
rewrite pair_big /= (reindex (fun p : bool * {ffun 'I_n -> bool} => put p.1 p.2)) //=.
exists (fun u => (u ord0, [ffun j => u (lift ord0 j)])) => [[b v] _|u _] /=.
  by congr (_, _); [rewrite ffunE unlift_none | apply/ffunP => j; rewrite !ffunE liftK].
by apply/ffunP => i; rewrite ffunE; case: unliftP => [j ->|->]; rewrite ?ffunE.
Qed.
Lemma mean_put n (f : {ffun 'I_n.+1 -> bool} -> F) :
  mean f = (mean (fun v => f (put false v)) + mean (fun v => f (put true v))) / 2%:R.
Proof.
by rewrite /mean sum_put big_split /= exprS invfM -mulrDl mulrA mulrAC.
Qed.
Definition tail n (w : 'I_n.+1 -> F) : 'I_n -> F := fun j => w (lift ord0 j).
Lemma signed_put n (w : 'I_n.+1 -> F) b v :
  signed w (put b v) = w ord0 * sgn b + signed (tail w) v.
Proof.
rewrite /signed big_ord_recl ffunE unlift_none; congr (_ + _).
by apply: eq_bigr => j _; rewrite ffunE liftK.
Qed.
Lemma mean0 (f : {ffun 'I_0 -> bool} -> F) (c : F) : (forall v, f v = c) -> mean f = c.
Proof.
move=> fc; rewrite /mean (eq_bigr (fun=> c)) // sumr_const.
by rewrite cardT -cardE card_ffun card_bool card_ord expn0 mulr1n expr0 divr1.
Qed.
Lemma mean_le n (f g : {ffun 'I_n -> bool} -> F) : (forall v, f v <= g v) -> mean f <= mean g.
Proof.
move=> fg; apply: ler_wpmul2r; first by rewrite invr_ge0; pos.
by apply: ler_sum => v _; apply: fg.
Qed.
Lemma meanZ n c (f : {ffun 'I_n -> bool} -> F) : mean (fun v => c * f v) = c * mean f.
Proof. by rewrite /mean -mulr_sumr mulrA. Qed.
Lemma meanD n (f g : {ffun 'I_n -> bool} -> F) : mean (fun v => f v + g v) = mean f + mean g.
Proof. by rewrite /mean big_split mulrDl. Qed.
Lemma mean_ext n (f g : {ffun 'I_n -> bool} -> F) : f =1 g -> mean f = mean g.
Proof. by move=> fg; rewrite /mean (eq_bigr g). Qed.
Lemma mean_cst n (c : F) : mean (fun _ : {ffun 'I_n -> bool} => c) = c.
Proof.
rewrite /mean sumr_const cardT -cardE card_ffun card_bool card_ord -[c *+ _]mulr_natr natrX.
by rewrite mulfK // expf_neq0 // pnatr_eq0.
Qed.

Lemma mean_signed n (w : 'I_n.+1 -> F) a (g : F -> F) :
  mean (fun v => g (a + signed w v)) = (mean (fun v => g (a + w ord0 + signed (tail w) v)) +
    mean (fun v => g (a - w ord0 + signed (tail w) v))) / 2%:R.
Proof.
rewrite mean_put; congr ((_ + _) / _); apply: mean_ext => v; rewrite signed_put addrA /sgn.
  by rewrite mulr1.
by rewrite mulrN1.
Qed.

(* E z^2 = 1 and E z^4 <= 3 if w is a unit vector; here with a shift a, for the induction *)
Definition square n (w : 'I_n -> F) := \sum_j w j ^+ 2.
Lemma square_recl n (w : 'I_n.+1 -> F) :
  square w = w ord0 ^+ 2 + square (tail w).
Proof. by rewrite /square big_ord_recl. Qed.
Lemma square_ge0 n (w : 'I_n -> F) : 0 <= square w.
Proof. by apply: sumr_ge0 => j _; apply: sqr_ge0. Qed.

Lemma second n (w : 'I_n -> F) a : mean (fun v => (a + signed w v) ^+ 2) = a ^+ 2 + square w.
Proof.
elim: n w a => [|n IH] w a.
  by rewrite (mean0 (c := a ^+ 2)) /square ?big_ord0 ?addr0 // => v; rewrite /signed big_ord0 addr0.
by rewrite (mean_signed w a (fun z => z ^+ 2)) !IH square_recl; field.
Qed.
Lemma fourth n (w : 'I_n -> F) a : mean (fun v => (a + signed w v) ^+ 4) <=
  a ^+ 4 + 6%:R * a ^+ 2 * square w + 3%:R * square w ^+ 2.
Proof.
elim: n w a => [|n IH] w a.
  rewrite (mean0 (c := a ^+ 4)) /square ?big_ord0; last by move=> v; rewrite /signed big_ord0 addr0.
  by rewrite mulr0 expr0n mulr0 !addr0.
rewrite (mean_signed w a (fun z => z ^+ 4)) square_recl ler_pdivr_mulr ?ltr0n //.
apply: le_trans (ler_add (IH _ _) (IH _ _)) _; rewrite -subr_ge0.
set s := square _; set x := w ord0.
set D := _ - _; have -> : D = 4%:R * x ^+ 4 by rewrite /D; ring.
by rewrite mulr_ge0 ?ler0n ?exprn_even_ge0.
Qed.

(* E e^(h z^2) <= (1 - 2h)^(-1/2) if w is a unit vector: at most the moment of a Gaussian. With a shift a
   it is e^(h a^2 / (1 - 2hs)) times as much, s = |w|^2, and so signs can be averaged one at a time. K stands
   for any number with K^2 (1 - 2hs) >= 1. *)
Variable e : F -> F.
Hypothesis eE : exponential e.
Lemma above n (w : 'I_n -> F) a h K : 0 <= h -> 2%:R * h * square w < 1 -> 0 <= K ->
  1 <= K ^+ 2 * (1 - 2%:R * h * square w) ->
  mean (fun v => e (h * (a + signed w v) ^+ 2)) <= K * e (h * a ^+ 2 / (1 - 2%:R * h * square w)).
Proof.
move=> h0; elim: n w a K => [|n IH] w a K.
  rewrite /square big_ord0 mulr0 subr0 mulr1 divr1 => _ K0 K1.
  rewrite (mean0 (c := e (h * a ^+ 2))); last by move=> v; rewrite /signed big_ord0 addr0.
  by rewrite ler_pmull ?(exp_gt0 eE) // -(@ler_pexpn2r _ 2) ?nnegrE ?ler01 // expr1n.
rewrite square_recl; set w0 := w ord0; set w' := tail w; set s := square w'.
move=> hs K0 K1.
have s0 : 0 <= s by apply: square_ge0.
have hs' : 0 < 1 - 2%:R * h * s.
  rewrite subr_gt0; apply: le_lt_trans hs; apply: ler_wpmul2l; first by pos.
  by rewrite ler_addr sqr_ge0.
pose h' : F := h / (1 - 2%:R * h * s); pose u : F := 2%:R * h' * w0 ^+ 2.
have h'0 : 0 <= h' by rewrite divr_ge0 // ltW.
have u0 : 0 <= u by rewrite /u; pos.
have uE : (1 - 2%:R * h * s) * (1 - u) = 1 - 2%:R * h * (w0 ^+ 2 + s).
  by rewrite /u /h'; field; rewrite gt_eqF.
have u1 : 0 < 1 - u by rewrite -(pmulr_rgt0 _ hs') uE subr_gt0.
have part c : mean (fun v => e (h * (c + signed w' v) ^+ 2)) <=
    K * e (- u / 2%:R) * e (h' * c ^+ 2).
  apply: le_trans (IH w' _ (K * e (- u / 2%:R)) _ _ _) _ => //.
  - by rewrite -subr_gt0.
  - by rewrite mulr_ge0 // ltW ?(exp_gt0 eE).
  - have e2 : e (- u / 2%:R) ^+ 2 = e (- u).
      by rewrite -(exp_nat eE) mulrCA divff ?pnatr_eq0 // mulr1.
    apply: le_trans K1 _; rewrite -uE exprMn e2 -[X in _ <= X]mulrA.
    apply: ler_wpmul2l; first by pos.
    rewrite mulrC; apply: ler_wpmul2r; first exact: ltW.
    exact: exp_ge.
  by rewrite [h' * _]mulrAC.
rewrite (mean_signed w a (fun z => e (h * z ^+ 2))) ler_pdivr_mulr ?ltr0n //.
apply: le_trans (ler_add (part _) (part _)) _; rewrite -mulrDr.
rewrite -/w0; set E1 := h' * _; set E2 := h' * _.
pose m : F := h' * (a ^+ 2 + w0 ^+ 2); pose y : F := 2%:R * h' * a * w0.
have -> : E1 = m + y by rewrite /E1 /m /y; ring.
have -> : E2 = m - y by rewrite /E2 /m /y; ring.
rewrite !(expD eE) -mulrDr -[X in X <= _]mulrA -[X in _ <= X]mulrA; apply: ler_wpmul2l => //.
have := cosh_le eE y; rewrite ler_pdivr_mulr ?ltr0n // => cy.
apply: (@le_trans _ _ (e (- u / 2%:R) * (e m * (e (y ^+ 2 / 2%:R) * 2%:R)))).
  by do 2?[apply: ler_wpmul2l; first exact: ltW (exp_gt0 eE _)].
rewrite [e m * _]mulrA [e (- u / _) * _]mulrA ler_pmul2r ?ltr0n // -!(expD eE) (exp_le eE).
have -> : - u / 2%:R + (m + y ^+ 2 / 2%:R) = h' * a ^+ 2 * (1 + u) by rewrite /m /y /u; field.
have -> : h * a ^+ 2 / (1 - 2%:R * h * (w0 ^+ 2 + s)) = h' * a ^+ 2 / (1 - u).
  by rewrite -uE invfM mulrA [h' * _]mulrAC.
apply: ler_wpmul2l; first by pos.
rewrite -[X in _ <= X]div1r ler_pdivl_mulr // -subr_ge0.
have -> : 1 - (1 + u) * (1 - u) = u ^+ 2 by ring.
exact: sqr_ge0.
Qed.
End Vectors.

Section Matrices.
Variables (F : rcfType) (e : F -> F).
Hypothesis eE : exponential e.
(* The matrix R of signs 1/sqrt d and -1/sqrt d: B says which. All B are equally likely. *)
Definition signs n d (B : 'M[bool]_(n, d)) : 'M[F]_(n, d) :=
  \matrix_(j, c) (sgn F (B j c) / Num.sqrt d%:R).
Definition chance n d (A : {set 'M[bool]_(n, d)}) : F := #|A|%:R / #|{: 'M[bool]_(n, d)}|%:R.
Definition sq n (w : 'cV[F]_n) := \sum_j w j 0 ^+ 2.
(* The rate of Lemma 9.6 *)
Definition rho (eta : F) := eta ^+ 2 / 4%:R - eta ^+ 3 / 6%:R.

Definition column n d (B : 'M[bool]_(n, d)) c : {ffun 'I_n -> bool} := [ffun j => B j c].
Lemma total n d : 0 < #|{: 'M[bool]_(n, d)}|%:R :> F.
Proof. by rewrite ltr0n card_matrix card_bool expn_gt0. Qed.
(* Columns are independent. *)
Lemma product n d (g : {ffun 'I_n -> bool} -> F) :
  (\sum_(B : 'M[bool]_(n, d)) \prod_c g (column B c)) / #|{: 'M[bool]_(n, d)}|%:R = mean g ^+ d.
Proof.
rewrite /mean expr_div_n -exprM -natrX card_matrix card_bool natrX; congr (_ / _).
rewrite (reindex (fun f : {ffun 'I_d -> {ffun 'I_n -> bool}} => \matrix_(j, c) f c j)) /=.
  transitivity (\sum_(f : {ffun 'I_d -> {ffun 'I_n -> bool}}) \prod_c g (f c)).
    apply: eq_bigr => f _; apply: eq_bigr => c _; congr g.
    by apply/ffunP => j; rewrite ffunE mxE.
  by rewrite -(bigA_distr_bigA (fun _ => g)) prodr_const card_ord.
exists (fun B => [ffun c => column B c]) => [f _|B _].
  by apply/ffunP => c; rewrite ffunE; apply/ffunP => j; rewrite ffunE mxE.
by apply/matrixP => j c; rewrite mxE !ffunE.
Qed.
Lemma exp_sum (I : finType) (f : I -> F) : e (\sum_i f i) = \prod_i e (f i).
Proof. exact: (big_morph e (expD eE) (exp0 eE)). Qed.
(* Chernoff's bound *)
Lemma chernoff n d (A : {set 'M[bool]_(n, d)}) (g : {ffun 'I_n -> bool} -> F) r :
  mean (fun v => e (g v)) <= e (- r) ->
  (forall B, B \in A -> 0 <= \sum_c g (column B c)) -> chance A <= e (- (d%:R * r)).
Proof.
move=> gr gA; apply: (@le_trans _ _ (mean (fun v => e (g v)) ^+ d)).
  rewrite -product /chance; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW ?total.
  rewrite -sum1_card natr_sum big_mkcond; apply: ler_sum => B _.
  rewrite -exp_sum; case: ifP => [/gA s0|_]; last exact: ltW (exp_gt0 eE _).
  by apply: le_trans (exp_ge eE _); rewrite ler_addl.
rewrite -mulrN (exp_nat eE); apply: ler_expn2r; rewrite ?nnegrE //.
  by rewrite /mean; apply: divr_ge0; [apply: sumr_ge0 => v _; exact: ltW (exp_gt0 eE _) | pos].
exact: ltW (exp_gt0 eE _).
Qed.
Lemma chanceS n d (A A' : {set 'M[bool]_(n, d)}) : A \subset A' -> chance A <= chance A'.
Proof.
move=> AA; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW ?total.
by rewrite ler_nat subset_leq_card.
Qed.
Lemma chanceU n d (A A' : {set 'M[bool]_(n, d)}) : chance (A :|: A') <= chance A + chance A'.
Proof.
rewrite /chance -mulrDl; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW ?total.
by rewrite -natrD ler_nat cardsU leq_subr.
Qed.
Lemma chance_bigcup n d (I : finType) (P : pred I) (A : I -> {set 'M[bool]_(n, d)}) :
  chance (\bigcup_(i | P i) A i) <= \sum_(i | P i) chance (A i).
Proof.
elim/big_rec2: _ => [|i c B _ IH]; first by rewrite /chance cards0 mul0r.
by apply: le_trans (chanceU _ _) _; rewrite ler_add2l.
Qed.

Lemma projected n d (B : 'M[bool]_(n, d)) (w : 'cV[F]_n) : (0 < d)%N ->
  d%:R * sq ((signs B)^T *m w) = \sum_c signed (fun j => w j 0) (column B c) ^+ 2.
Proof.
move=> d0; rewrite /sq mulr_sumr; apply: eq_bigr => c _.
have -> : ((signs B)^T *m w) c 0 = signed (fun j => w j 0) (column B c) / Num.sqrt d%:R.
  rewrite mxE /signed mulr_suml; apply: eq_bigr => j _.
  by rewrite !mxE ffunE mulrC mulrA.
by rewrite expr_div_n sqr_sqrtr ?ler0n // mulrC divfK // pnatr_eq0 -lt0n.
Qed.

(* Lemma 9.6, one column: (9.8) and what stands above it. *)
Section Unit.
Variables (n : nat) (w : 'I_n -> F) (eta : F).
Hypotheses (w1 : square w = 1) (eta1 : 0 < eta <= 1).
Lemma upper_moment (h := eta / (2%:R * (1 + eta))) :
  mean (fun v => e (h * (signed w v ^+ 2 - (1 + eta)))) <= e (- rho eta).
Proof.
have [e0 e1] := andP eta1; have p0 : 0 < 1 + eta by rewrite addr_gt0 ?ltr01.
pose y := eta - eta ^+ 2 / 2%:R + eta ^+ 3 / 3%:R.
have h2 : 1 - 2%:R * h * 1 = (1 + eta)^-1 by rewrite /h; field; rewrite gt_eqF.
rewrite (mean_ext (g := fun v => e (- (h * (1 + eta))) * e (h * (0 + signed w v) ^+ 2))); last first.
  by move=> v; rewrite add0r -(expD eE) mulrBr addrC.
rewrite meanZ; have := @above F e eE n w 0 h (e (y / 2%:R)); rewrite w1 h2 => ab.
apply: le_trans (_ : e (- (h * (1 + eta))) * (e (y / 2%:R) * e (h * 0 ^+ 2 / (1 + eta)^-1)) <= _).
  apply: ler_wpmul2l; first exact: ltW (exp_gt0 eE _).
  apply: ab.
  - by rewrite /h divr_ge0 ?mulr_ge0 ?ler0n ?ltW.
  - by rewrite -subr_gt0 h2 invr_gt0.
  - exact: ltW (exp_gt0 eE _).
  rewrite -(exp_nat eE) mulrCA divff ?pnatr_eq0 // mulr1 ler_pdivl_mulr // mul1r.
  by apply: log_above => //; rewrite e1 ltW.
rewrite expr0n mulr0 mul0r (exp0 eE) mulr1 -(expD eE) (exp_le eE) le_eqVlt; apply/orP; left.
by apply/eqP; rewrite /h /y /rho; field; rewrite gt_eqF.
Qed.
Lemma lower_moment (h := eta / 2%:R) :
  mean (fun v => e (h * ((1 - eta) - signed w v ^+ 2))) <= e (- rho eta).
Proof.
have [e0 e1] := andP eta1; have h0 : 0 <= h by rewrite divr_ge0 ?ler0n ?ltW.
apply: le_trans (_ : mean (fun v => e (h * (1 - eta)) *
  (1 + (- h * signed w v ^+ 2 + h ^+ 2 / 2%:R * signed w v ^+ 4))) <= _).
  apply: mean_le => v; rewrite mulrBr (expD eE); apply: ler_wpmul2l; first exact: ltW (exp_gt0 eE _).
  have hz : 0 <= h * signed w v ^+ 2 by pos.
  apply: le_trans (expN_quadratic eE hz) _.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; set z := signed w v; field.
rewrite meanZ meanD mean_cst meanD !meanZ.
have m2 : mean (fun v => signed w v ^+ 2) = 1.
  have := second w 0; rewrite w1 expr0n add0r => <-; by apply: mean_ext => v; rewrite add0r.
have m4 : mean (fun v => signed w v ^+ 4) <= 3%:R.
  have := fourth w 0; rewrite w1 !expr0n /= !mulr0 mul0r add0r expr1n mulr1 add0r.
  by rewrite (mean_ext (g := fun v => signed w v ^+ 4)) // => v; rewrite add0r.
rewrite m2; apply: le_trans (_ : e (h * (1 - eta)) * (1 - eta / 2%:R + 3%:R / 8%:R * eta ^+ 2) <= _).
  apply: ler_wpmul2l; first exact: ltW (exp_gt0 eE _).
  rewrite -addrA ler_add2l mulr1 ler_add2l.
  apply: le_trans (ler_wpmul2l _ m4) _; first by pos.
  by rewrite le_eqVlt /h; apply/orP; left; apply/eqP; field.
have e01 : 0 <= eta <= 1 by rewrite e1 ltW.
apply: le_trans (ler_wpmul2l (ltW (exp_gt0 eE _)) (log_below eE e01)) _.
rewrite -(expD eE) (exp_le eE) le_eqVlt; apply/orP; left; apply/eqP.
by rewrite /h /rho; field.
Qed.
End Unit.

(* Lemma 9.6 (Lengths), for signs; the page has eta at most 1/2. *)
Theorem lengths n d (w : 'cV[F]_n) eta : (0 < d)%N -> sq w = 1 -> 0 < eta <= 1 ->
  chance [set B : 'M[bool]_(n, d) | eta < `|sq ((signs B)^T *m w) - 1|] <=
  2%:R * e (- (d%:R * rho eta)).
Proof.
move=> d0 w1 eta1; have [e0 _] := andP eta1; set w' : 'I_n -> F := fun j => w j 0.
pose h := eta / (2%:R * (1 + eta)); pose h' := eta / 2%:R.
pose up v := h * (signed w' v ^+ 2 - (1 + eta)).
pose low v := h' * ((1 - eta) - signed w' v ^+ 2).
pose U := [set B : 'M[bool]_(n, d) | 0 <= \sum_c up (column B c)].
pose L := [set B : 'M[bool]_(n, d) | 0 <= \sum_c low (column B c)].
have cst (c : F) : \sum_(i < d) c = d%:R * c by rewrite sumr_const card_ord mulr_natl.
apply: le_trans (_ : chance (U :|: L) <= _).
  apply: chanceS; apply/subsetP => B; rewrite !inE -!mulr_sumr !sumrB !cst -!(projected _ w d0) -!mulrBr.
  rewrite ltr_normr => /orP[] big; apply/orP; [left|right].
    apply: mulr_ge0; first by rewrite /h divr_ge0 ?mulr_ge0 ?addr_ge0 ?ler0n ?ler01 ?ltW.
    by apply: mulr_ge0; rewrite ?ler0n // opprD addrA subr_ge0 ltW.
  apply: mulr_ge0; first by rewrite /h' divr_ge0 ?ler0n ?ltW.
  apply: mulr_ge0; rewrite ?ler0n // subr_ge0 ltW //.
  by rewrite -subr_gt0 (_ : _ - _ = - (sq ((signs B)^T *m w) - 1) - eta) ?subr_gt0 //; ring.
apply: le_trans (chanceU _ _) _; rewrite [2%:R * _]mulr_natl mulr2n.
by apply: ler_add; [apply: (chernoff (g := up)) | apply: (chernoff (g := low))];
  rewrite ?upper_moment ?lower_moment // => B; rewrite inE.
Qed.
End Matrices.

Section Distances.
Variables (F : rcfType) (e l : F -> F).
Hypotheses (eE : exponential e) (lE : logarithm e l).

Lemma sqZ n c (w : 'cV[F]_n) : sq (c *: w) = c ^+ 2 * sq w.
Proof. by rewrite /sq mulr_sumr; apply: eq_bigr => j _; rewrite mxE exprMn. Qed.
Lemma sq_ge0 n (w : 'cV[F]_n) : 0 <= sq w.
Proof. by apply: sumr_ge0 => j _; apply: sqr_ge0. Qed.
Lemma sq_0 n : sq (0 : 'cV[F]_n) = 0.
Proof. by rewrite /sq big1 // => j _; rewrite mxE expr0n. Qed.
Lemma sq0 n (w : 'cV[F]_n) : sq w = 0 -> w = 0.
Proof.
move/eqP; rewrite psumr_eq0 => [/allP w0|j _]; last exact: sqr_ge0.
apply/matrixP => j i; rewrite ord1 mxE; have := w0 j (mem_index_enum j).
by rewrite /= sqrf_eq0 => /eqP.
Qed.
(* Lemma 9.6 for a vector of any length *)
Lemma lengths_any n d (w : 'cV[F]_n) eta : (0 < d)%N -> 0 < eta <= 1 ->
  chance F [set B : 'M[bool]_(n, d) | eta * sq w < `|sq ((signs F B)^T *m w) - sq w|] <=
  2%:R * e (- (d%:R * rho eta)).
Proof.
move=> d0 eta1; have [w0|w0] := eqVneq (sq w) 0.
  apply: le_trans (_ : chance F (set0 : {set 'M[bool]_(n, d)}) <= _).
    apply: chanceS; apply/subsetP => B; rewrite inE.
    by rewrite (sq0 w0) mulmx0 !sq_0 subrr normr0 mulr0 ltxx.
  rewrite /chance cards0 mul0r; apply: mulr_ge0; first exact: ler0n.
  exact: ltW (exp_gt0 eE _).
have s0 : 0 < sq w by rewrite lt_def w0 sq_ge0.
pose c := Num.sqrt (sq w); have c2 : c ^+ 2 = sq w by rewrite sqr_sqrtr ?ltW.
have c0 : c != 0 by rewrite -sqrf_eq0 c2.
have u1 : sq (c^-1 *: w) = 1 by rewrite sqZ exprVn c2 mulVf.
apply: le_trans (lengths eE d0 u1 eta1); apply: chanceS; apply/subsetP => B; rewrite !inE.
rewrite -scalemxAr sqZ exprVn c2; set s := sq (_ *m w) => big.
have -> : (sq w)^-1 * s - 1 = (sq w)^-1 * (s - sq w) by rewrite mulrBr mulVf.
rewrite normrM normfV (gtr0_norm s0); move: big.
by rewrite mulrC ltr_pdivl_mull // mulrC.
Qed.

(* ---- The Johnson-Lindenstrauss lemma ---- *)
Section Points.
Variables (n N k : nat) (x : 'I_N -> 'cV[F]_n) (eps : F).
(* R keeps the squares of all distances between the N points up to the factors 1 - eps and 1 + eps. *)
Definition keeps (R : 'M[F]_(k, n)) := [forall i, forall j,
  (1 - eps) * sq (x i - x j) <= sq (R *m x i - R *m x j) <= (1 + eps) * sq (x i - x j)].
Definition has_signs (R : 'M[F]_(k, n)) := forall a j,
  R a j = 1 / Num.sqrt k%:R \/ R a j = - (1 / Num.sqrt k%:R).
Hypotheses (k0 : (0 < k)%N) (eps1 : 0 < eps <= 1).
Lemma pairs m (c : F) : \sum_(j < m) (2%:R * c) *+ j = m%:R * (m%:R - 1) * c.
Proof.
elim: m => [|m IH]; first by rewrite big_ord0 !mul0r.
by rewrite big_ord_recr /= IH -[(2%:R * c) *+ m]mulr_natl -addn1 natrD; ring.
Qed.
Lemma sq_opp m (w : 'cV[F]_m) : sq (- w) = sq w.
Proof. by rewrite -scaleN1r sqZ sqrrN expr1n mul1r. Qed.
(* The chance that a random matrix of signs does not keep all distances: a bound for each of the pairs *)
Theorem distances : chance F [set B : 'M[bool]_(n, k) | ~~ keeps (signs F B)^T] <=
  N%:R * (N%:R - 1) * e (- (k%:R * rho eps)).
Proof.
pose A i j := [set B : 'M[bool]_(n, k) |
  eps * sq (x i - x j) < `|sq ((signs F B)^T *m (x i - x j)) - sq (x i - x j)|].
pose U : {set 'M[bool]_(n, k)} := \bigcup_(j : 'I_N) \bigcup_(i : 'I_N | (i < j)%N) A i j.
apply: le_trans (_ : chance F U <= _).
  apply: chanceS; apply/subsetP => B; rewrite inE negb_forall => /existsP[i].
  rewrite negb_forall => /existsP[j]; rewrite -mulmxBr => bad.
  have bij : B \in A i j.
    rewrite inE ltNge; apply: contra bad; rewrite ler_distl mulrBl mul1r mulrDl mul1r.
    by [].
  have [ij|ji|ij] := ltngtP i j.
  - by apply/bigcupP; exists j => //; apply/bigcupP; exists i.
  - apply/bigcupP; exists i => //; apply/bigcupP; exists j => //; move: bij; rewrite !inE.
    by rewrite -[x i - x j]opprB mulmxN !sq_opp.
  by case/negP: bad; rewrite (val_inj ij) subrr mulmx0 !sq_0 !mulr0 lexx.
apply: le_trans (chance_bigcup _ _ _) _; rewrite -pairs; apply: ler_sum => j _.
apply: le_trans (chance_bigcup _ _ _) _.
apply: le_trans (ler_sum _ (fun i _ => lengths_any (x i - x j) k0 eps1)) _.
by rewrite (big_ord_narrow (ltnW (ltn_ord j))) sumr_const card_ord.
Qed.
Hypothesis N0 : (0 < N)%N.
Lemma rhoE : k%:R * (eps ^+ 2 / 2%:R - eps ^+ 3 / 3%:R) = 2%:R * (k%:R * rho eps).
Proof. by rewrite /rho; field. Qed.
(* The Johnson-Lindenstrauss lemma, with a matrix of signs: k rows, a logarithm of the number of points, keep
   all distances, whatever the dimension n. *)
Theorem johnson_lindenstrauss : 4%:R * l N%:R <= k%:R * (eps ^+ 2 / 2%:R - eps ^+ 3 / 3%:R) ->
  exists2 R, has_signs R & keeps R.
Proof.
move=> enough; have N1 : 0 < N%:R :> F by rewrite ltr0n.
set bad := [set B : 'M[bool]_(n, k) | ~~ keeps (signs F B)^T].
have small : chance F bad < 1.
  apply: le_lt_trans distances _.
  have en : e (- (k%:R * rho eps)) <= (N%:R ^+ 2)^-1.
    rewrite -[in X in _ <= X](lnK lE N1) -(exp_nat eE) -(expN eE) (exp_le eE) ler_oppl opprK.
    rewrite -(ler_pmul2l (ltr0n F 2)) -rhoE (le_trans _ enough) // mulrA.
    by rewrite -natrM.
  have N11 : 0 <= N%:R - 1 :> F by rewrite subr_ge0 ler1n.
  apply: le_lt_trans (ler_wpmul2l _ en) _; first by apply: mulr_ge0; rewrite ?ler0n.
  rewrite ltr_pdivr_mulr ?exprn_gt0 // mul1r expr2 ltr_pmul2l // ltr_subl_addr ltr_addl.
  exact: ltr01.
have [B Bbad] : exists B, B \notin bad.
  apply/existsP; rewrite -negb_forall; apply: contraL small => /forallP all_bad; rewrite -leNgt.
  rewrite /chance (_ : bad = setT) ?cardsT ?divff //; first by rewrite gt_eqF // total.
  by apply/setP => B; rewrite all_bad inE.
exists (signs F B)^T; last by move: Bbad; rewrite inE negbK.
move=> a j; rewrite !mxE /sgn; case: (B j a); first by right; rewrite mulN1r mul1r.
by left.
Qed.
(* In particular k >= 24 ln N / eps^2 rows are enough. *)
Theorem enough_rows : 24%:R * l N%:R <= k%:R * eps ^+ 2 -> exists2 R, has_signs R & keeps R.
Proof.
move=> enough; apply: johnson_lindenstrauss.
rewrite -(ler_pmul2l (ltr0n F 6)) mulrA -natrM; apply: le_trans enough _.
have [e0 e1] := andP eps1; rewrite -subr_ge0.
have -> : 6%:R * (k%:R * (eps ^+ 2 / 2%:R - eps ^+ 3 / 3%:R)) - k%:R * eps ^+ 2 =
  2%:R * k%:R * eps ^+ 2 * (1 - eps) by field.
have : 0 <= 1 - eps by rewrite subr_ge0.
by move=> h; pos.
Qed.
End Points.
End Distances.

(* Two points: 24 rows keep their distance up to the factor 2, as ln 2 <= 1. *)
Example two_points (F : rcfType) (e l : F -> F) n (x : 'I_2 -> 'cV[F]_n) :
  exponential e -> logarithm e l -> exists2 R, @has_signs F n 24 R & keeps x 1 R.
Proof.
move=> eE lE; have one : 0 < (1 : F) <= 1 by rewrite ltr01 lexx.
apply: (@enough_rows F e l eE lE) => //.
rewrite expr1n; apply: ler_wpmul2l; first exact: ler0n.
rewrite -(exp_le eE) (lnK lE) ?ltr0n //; exact: exp_ge.
Qed.
(* The hypotheses of Lemma 9.6 hold for the vector of one entry, 1. *)
Example unit_vector (F : rcfType) (e : F -> F) : exponential e ->
  chance F [set B : 'M[bool]_(1, 1) | 1 < `|sq ((signs F B)^T *m const_mx 1) - 1|] <=
  2%:R * e (- (1%:R * rho 1)).
Proof.
move=> eE; apply: lengths => //; last by rewrite ltr01 lexx.
by rewrite /sq big_ord1 mxE expr1n.
Qed.
